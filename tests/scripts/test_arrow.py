"""Arrow tables both ways with pyarrow: it writes files and streams of random columns, compressed and not, in batches of
any length; tests/api/arrow.cpp reads them and writes them anew; pyarrow reads that, which must be the same values. Runs in
the environment .deps/formats (tests/formats.txt), which ./dev test --all makes; skipped where there is none.
"""
import subprocess
import tempfile

from formats_environment import BUILD, needed

with needed():
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.feather

random = np.random.default_rng(5)


def texts(n):
    return ["".join(chr(c) for c in random.integers(32, 0x2000, random.integers(0, 12))) for _ in range(n)]


def column(kind, n):
    if kind == "bool":
        a = pa.array(random.integers(0, 2, n).astype(bool))
    elif kind in ("string", "large_string"):
        a = pa.array(texts(n), getattr(pa, kind)())
    elif kind == "string_view":  # some texts longer than the 12 bytes that a view holds itself
        a = pa.array([t * 3 for t in texts(n)], pa.string_view())
    elif kind == "binary_view":
        a = pa.array([random.bytes(random.integers(0, 30)) for _ in range(n)], pa.binary_view())
    elif kind == "binary":
        a = pa.array([random.bytes(random.integers(0, 9)) for _ in range(n)], pa.binary())
    elif kind == "fixed":
        a = pa.array([random.bytes(3) for _ in range(n)], pa.binary(3))
    elif kind == "dictionary":
        words = texts(7)
        a = pa.array([words[i] for i in random.integers(0, 7, n)], pa.string()).dictionary_encode()
    elif kind == "lists":
        a = pa.FixedSizeListArray.from_arrays(pa.array(random.normal(size=n * 4).astype("f4")), 4)
    elif kind == "grids":
        inner = pa.FixedSizeListArray.from_arrays(pa.array(random.integers(0, 2, n * 6).astype(bool)), 3)
        a = pa.FixedSizeListArray.from_arrays(inner, 2)
    elif kind[0] == "f":
        a = pa.array(random.normal(size=n).astype(kind))
    else:
        a = pa.array(np.frombuffer(random.bytes(n * np.dtype(kind).itemsize), kind))
    return a


KINDS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "bool", "string", "large_string", "binary", "fixed",
         "string_view", "binary_view",
         "dictionary", "lists", "grids"]


def with_gaps(a):
    """The same with values missing, where Arrow lets us say so in one line."""
    if isinstance(a, (pa.DictionaryArray, pa.FixedSizeListArray)):
        return a
    there = random.integers(0, 3, len(a)) > 0
    if is_view(a.type):  # which if_else does not take
        return pa.array([v if yes else None for v, yes in zip(a.to_pylist(), there)], a.type)
    return pa.compute.if_else(pa.array(there), a, pa.scalar(None, a.type))


def write(path, table, kind, rows, compression):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    maker = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
    with maker(path, table.schema, options=options) as out:
        for batch in table.to_batches(rows):
            out.write_batch(batch)


def expected(a):
    """Of a column with gaps, what rill puts in their place."""
    t = a.type
    fill = (float("nan") if pa.types.is_floating(t) else False if pa.types.is_boolean(t) else
            "" if pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t) else
            b"" if pa.types.is_binary(t) or pa.types.is_binary_view(t) or pa.types.is_fixed_size_binary(t) else 0)
    return [fill if v is None else v for v in a.to_pylist()]


def as_bytes(v):
    return v.encode() if isinstance(v, str) else v


def is_view(t):
    return pa.types.is_string_view(t) or pa.types.is_binary_view(t)


def is_text(t):
    return (is_view(t) or pa.types.is_dictionary(t) or pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_binary(t) or
            pa.types.is_fixed_size_binary(t))


def check(path, table):
    reader = pa.ipc.open_stream if path.endswith("s") else pa.ipc.open_file
    with pa.OSFile(path) as file:
        back = reader(file).read_all()
    back.validate(full=True)
    for name in table.column_names:
        a = table.column(name)
        got, want = back.column(name).to_pylist(), expected(a)
        if is_text(a.type):
            assert [as_bytes(v) for v in got] == [as_bytes(v) for v in want], (path, name)
        else:
            np.testing.assert_array_equal(np.array(got), np.array(want), f"{path} {name}")
            if not pa.types.is_fixed_size_list(a.type):
                assert back.column(name).type == a.type, (path, name)
        mask = name + ".valid"
        assert (mask in back.column_names) == (a.null_count > 0), (path, name)
        if a.null_count:
            assert back.column(mask).to_pylist() == a.is_valid().to_pylist(), (path, name)


def main():
    with tempfile.TemporaryDirectory() as folder:
        tables = {}
        for number in range(24):
            n, kind = int(random.choice([0, 1, 7, 64, 1000])), ("file", "stream")[number % 2]
            compression = (None, "lz4", "zstd")[number % 3]
            columns = {k: column(k, n) for k in KINDS}
            if number >= 12:
                columns = {k: with_gaps(a) for k, a in columns.items()}
            tables[f"t{number}"] = table = pa.table(columns)
            write(f"{folder}/in_t{number}", table, kind, int(random.choice([3, 50, 2000])), compression)
        table = pa.table({k: column(k, 100) for k in KINDS if k != "f2"})
        pa.feather.write_feather(table, f"{folder}/in_feather")
        tables["feather"] = table
        subprocess.run([f"{BUILD}/tests/api_arrow", folder], check=True)
        for name, table in tables.items():
            for ending in ("arrow", "arrows"):
                check(f"{folder}/out_in_{name}.{ending}", table)
    print(f"{len(tables)} tables of {len(KINDS)} kinds of columns, both ways")


main()
