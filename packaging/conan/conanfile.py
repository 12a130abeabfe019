"""rill's recipe for Conan 2: `conan create packaging/conan` builds this checkout by Meson.

Dependencies are ConanCenter's; with `--profile:all packaging/conan/system_profile` they are the system's. ConanCenter
has neither oneDNN nor libcsv, so that a build with its packages is without both. test_package builds the program of
tests/consumer.
"""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.env import Environment
from conan.tools.files import copy, load
from conan.tools.gnu import PkgConfigDeps
from conan.tools.meson import Meson, MesonToolchain


class Rill(ConanFile):
    name = "rill"
    description = "Eager-first tensors, a gradient tape and traced functions for C++20"
    license = "Apache-2.0"
    topics = ("tensor", "autodiff", "machine-learning", "jit")
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"llvm": [True, False], "lapack": [True, False], "io": [True, False]}
    default_options = {
        "llvm": True,    # compiles traced functions
        "lapack": True,  # factorises matrices
        "io": True,      # librill_io, librill_models, and the program rill
        "llvm-core/*:targets": "X86;AArch64",
    }

    @property
    def root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        self.version = re.search(r"version: '([\d.]+)'", load(self, os.path.join(self.root, "meson.build"))).group(1)

    def export_sources(self):
        copy(self, "*", self.root, self.export_sources_folder,
             excludes=(".git", ".git/*", ".deps/*", ".cache/*", "build*/*", "logs/*", "tests/*", "*.pyc"))

    def layout(self):
        self.folders.generators = "conan"
        self.folders.build = "build"

    def validate(self):
        check_min_cppstd(self, 20)

    def requirements(self):
        self.requires("fmt/[>=8]")
        self.requires("highway/[>=1.0]")
        self.requires("zlib/[>=1.2.11]")
        self.requires("re2/[>=20200101]")
        self.requires("utf8proc/[>=2.6]")
        if self.options.llvm:
            self.requires("llvm-core/[>=16 <22]")
        if self.options.lapack:
            self.requires("openblas/[>=0.3]")
        if self.options.io:
            for wanted in ("nlohmann_json/[>=3.10]", "protobuf/[>=3.12 <4]", "libpng/[>=1.6]", "libzip/[>=1.7]",
                           "leveldb/[>=1.20]", "flatbuffers/[>=2]", "lz4/[>=1.9]", "zstd/[>=1.5]",
                           "libsndfile/[>=1.0.31]", "cli11/[>=2.1]",
                           "libjpeg-turbo/[>=2.0]", "giflib/[>=5.2]", "libwebp/[>=1.0]"):
                self.requires(wanted)

    def build_requirements(self):
        self.tool_requires("meson/[>=1.3 <2]")
        self.tool_requires("pkgconf/[>=2]")
        if self.options.io:
            self.tool_requires("protobuf/<host_version>")
            self.tool_requires("flatbuffers/<host_version>")

    def generate(self):
        PkgConfigDeps(self).generate()
        tools = Environment()
        toolchain = MesonToolchain(self)
        toolchain.project_options["examples"] = False
        for name in ("tests", "benchmarks", "csv"):
            toolchain.project_options[name] = "disabled"
        for name in ("llvm", "lapack", "io"):
            toolchain.project_options[name] = "auto" if self.options.get_safe(name) else "disabled"
        for dependency in self.dependencies.host.values():
            if dependency.ref.name in ("leveldb", "flatbuffers"):  # meson.build asks no pkg-config for these
                info = dependency.cpp_info.aggregated_components()
                toolchain.extra_cxxflags += [f"-I{folder}" for folder in info.includedirs]
                toolchain.extra_ldflags += [f"-L{folder}" for folder in info.libdirs]
            if dependency.ref.name == "llvm-core":  # nor for LLVM, but llvm-config
                tools.prepend_path("PATH", os.path.join(dependency.package_folder, "bin"))
        toolchain.generate()
        tools.vars(self).save_script("llvm_config")

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        Meson(self).install()

    def package_info(self):
        # The package's own files for CMake and pkg-config say more than Conan can derive.
        self.cpp_info.libs = ["rill_train", "rill_data", "rill_distribute", "rill_nn", "rill_models", "rill_io", "rill_ops", "rill"] if self.options.io else ["rill_data", "rill_distribute", "rill_nn", "rill_ops", "rill"]
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "rill")]
