"""Makes the API reference of the public headers with Doxygen: `./dev docs --reference`.

usage: reference.py FOLDER    (the reference is FOLDER/html/index.html)

Exits 1 where Doxygen finds a fault in a comment, or a public function without one.
"""
import glob
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

import headers


def settings(folder):
    paths = [path for _, group in headers.PUBLIC for path in group]
    with open("docs/Doxyfile", encoding="utf-8") as file:
        return file.read() + f"\nINPUT = {' '.join(paths)}\nOUTPUT_DIRECTORY = {folder}\n"


def undocumented(folder):
    """The public functions that have no comment, as Doxygen sees them, each with its file and line."""
    documented, bare = set(), []
    for path in glob.glob(f"{folder}/xml/*.xml"):
        for compound in xml.parse(path).getroot().iter("compounddef"):
            if compound.get("kind") not in ("namespace", "class", "struct"):
                continue
            scope = compound.findtext("compoundname")
            for member in compound.iter("memberdef"):
                name = member.findtext("name")
                if member.get("kind") != "function" or member.get("prot") != "public" or "detail" in scope or \
                        {name, *scope.split("::")} & headers.INTERNAL:
                    continue
                of_class = compound.get("kind") != "namespace"
                if of_class and (name.lstrip("~") == scope.split("::")[-1] or name.startswith("operator")):
                    continue  # the class's own comment documents those
                text = "".join("".join(member.find(tag).itertext()) for tag in ("briefdescription", "detaileddescription"))
                if text.strip():
                    documented.add(f"{scope}::{name}")
                else:
                    place = member.find("location")
                    bare.append((f"{scope}::{name}", f"{place.get('file')}:{place.get('line')}"))
    return [f"{place}: {name} has no comment" for name, place in sorted(set(bare)) if name not in documented]


def main():
    folder = os.path.abspath(sys.argv[1])
    os.chdir(headers.ROOT)
    os.makedirs(folder, exist_ok=True)
    done = subprocess.run(["doxygen", "-"], input=settings(folder), text=True, stderr=subprocess.PIPE)
    faults = [line for line in done.stderr.splitlines() if line.strip()]
    if done.returncode:
        sys.exit("\n".join(faults) or "doxygen failed")
    functions = undocumented(folder)
    for line in faults + functions:
        print(line)
    print(f"{folder}/html/index.html: {len(functions)} public functions without a comment, {len(faults)} other faults")
    return 1 if faults or functions else 0


if __name__ == "__main__":
    sys.exit(main())
