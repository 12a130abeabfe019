"""Tensors' files both ways with the programs whose formats they are: numpy, safetensors and gguf write a file, rill reads
it and writes another, and they read that one. Where numpy or safetensors would write the same file, the bytes are equal.
The program tests/api/tensor_files.cpp converts. Runs in the environment .deps/formats (tests/formats.txt), which ./dev
test makes; skipped where there is none.
"""
import io
import os
import subprocess
import tempfile
import zipfile

from formats_environment import BUILD, needed

with needed():
    import gguf
    import ml_dtypes
    import numpy as np
    import safetensors.numpy
    from gguf import quants

program = subprocess.Popen([f"{BUILD}/tests/api_tensor_files", "serve"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True, encoding="utf-8")
random = np.random.default_rng(1)
checked = 0


def ask(source, target, option=""):
    """The metadata that it says, and the error or ""."""
    global checked
    checked += 1
    program.stdin.write(f"{source}\t{target}\t{option}\n")
    program.stdin.flush()
    said = []
    for line in program.stdout:
        if line == "done\n":
            return said, ""
        if line.startswith("error: "):
            return said, line[7:]
        said.append(line.rstrip("\n"))
    raise AssertionError(f"{source}: the program ended, with {program.wait()}")


def convert(source, target, *option):
    said, error = ask(source, target, *option)
    assert not error, f"{source} -> {target}: {error}"
    return said


def message(source):
    _, error = ask(source, f"{source}.out.npz")
    assert error, f"{source}: no error"
    assert not os.path.exists(f"{source}.out.npz")
    return error


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 3), (1, 4, 1), (2, 3, 4, 5), (12345,), tuple([1] * 20 + [3])]
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
          "float64", "complex64", "complex128"]


def array(dtype, shape):
    """Any bits: NaNs with payloads, denormals and infinities among them."""
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    raw = random.integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    return np.ascontiguousarray(raw).view(dtype).reshape(shape)


def npy(folder):
    for dtype in DTYPES:
        for shape in SHAPES:
            x = array(dtype, shape)
            np.save(f"{folder}/a.npy", x)
            for options in ([], ["mapped"]):
                convert(f"{folder}/a.npy", f"{folder}/b.npy", *options)
                assert contents(f"{folder}/a.npy") == contents(f"{folder}/b.npy"), (dtype, shape)
        for x in (np.asfortranarray(array(dtype, (3, 5, 2))), array(dtype, (4, 6)).T, array(dtype, (5, 6, 7))[::2, 1:, ::-1]):
            for y in (x, x.astype(x.dtype.newbyteorder())):
                np.save(f"{folder}/a.npy", y)
                for options in ([], ["mapped"]):
                    convert(f"{folder}/a.npy", f"{folder}/b.npy", *options)
                    assert same(np.load(f"{folder}/b.npy"), np.ascontiguousarray(x)), (dtype, y.flags)
    # Headers that older and newer versions of numpy write.
    x = array("float32", (3, 4))
    for version in ((1, 0), (2, 0), (3, 0)):
        with open(f"{folder}/a.npy", "wb") as file:
            np.lib.format.write_array(file, x, version=version)
        convert(f"{folder}/a.npy", f"{folder}/b.npy")
        assert same(np.load(f"{folder}/b.npy"), x)
    for lengths in range(1, 200):  # every length of padding
        x = np.zeros((1,) * (lengths % 32) + (10 ** (lengths // 32),), "bool")
        np.save(f"{folder}/a.npy", x)
        if lengths % 3 == 0:
            convert(f"{folder}/a.npy", f"{folder}/b.npy")
            assert contents(f"{folder}/a.npy") == contents(f"{folder}/b.npy"), x.shape


def text(folder):
    for x in (np.array(["", "a", "käse", "日本語", "🎉x"]), np.array([["ab", "c"], ["", "défg"]]), np.array([""]),
              np.array(["only"], ">U7"), np.array("alone"), np.zeros((0, 2), "U3"), np.asfortranarray([["a", "bc"], ["d", "e"]])):
        np.save(f"{folder}/a.npy", x)
        convert(f"{folder}/a.npy", f"{folder}/b.npy")
        assert np.array_equal(np.load(f"{folder}/b.npy"), x) and np.load(f"{folder}/b.npy").shape == x.shape, x
    x = np.array([b"\xff\x00\xfe", b"bytes", b""])
    np.save(f"{folder}/a.npy", x)
    convert(f"{folder}/a.npy", f"{folder}/b.npy")
    assert contents(f"{folder}/a.npy") == contents(f"{folder}/b.npy")
    np.save(f"{folder}/a.npy", np.array(["a", "bcd"]))
    convert(f"{folder}/a.npy", f"{folder}/b.npy")
    assert contents(f"{folder}/a.npy") == contents(f"{folder}/b.npy")


def refused(folder):
    structure = np.zeros(3, [("a", "f4"), ("b", "i8", (2,))])
    for x, expected in ((structure, "structure"), (np.array([1, "x", None], object), "pickled"),
                        (np.zeros(2, "M8[ns]"), "dates"), (np.zeros(2, "m8[D]"), "dates"), (np.zeros(2, "V3"), "raw bytes"),
                        (np.zeros(2, "longdouble"), "none of rill's"), (np.zeros(2, "clongdouble"), "none of rill's")):
        np.save(f"{folder}/a.npy", x, allow_pickle=True)
        assert expected in message(f"{folder}/a.npy"), message(f"{folder}/a.npy")
        np.savez(f"{folder}/a.npz", good=np.zeros(2), bad=x)
        assert "'bad.npy'" in message(f"{folder}/a.npz")


def npz(folder):
    arrays = {f"{dtype}/{i}": array(dtype, shape) for dtype in DTYPES for i, shape in enumerate(SHAPES)}
    arrays |= {"../up": np.zeros(2), "ünï/🎉": np.arange(3), "n" * 3000: np.arange(2), "a b.c": np.array(["text", "ß"]),
               "fortran": np.asfortranarray(array("float32", (30, 50))), "zeros": np.zeros((100, 1000))}
    for write in (np.savez, np.savez_compressed):
        write(f"{folder}/a.npz", **arrays)
        for options in ([], ["compress"]):
            convert(f"{folder}/a.npz", f"{folder}/b.npz", *options)
            with np.load(f"{folder}/b.npz") as back:
                assert set(back.files) == set(arrays)
                assert all(same(back[name], np.ascontiguousarray(x)) if x.shape else same(back[name], x)
                           for name, x in arrays.items())
            with zipfile.ZipFile(f"{folder}/b.npz") as archive:
                assert archive.testzip() is None
                kinds = {entry.compress_type for entry in archive.infolist()}
                assert kinds == {zipfile.ZIP_DEFLATED if options else zipfile.ZIP_STORED}, kinds
    # A zip file that was written to a pipe: sizes stand behind the members.
    with open(f"{folder}/a.npz", "wb") as file:
        class Pipe(io.RawIOBase):
            def writable(self):
                return True

            def write(self, data):
                return file.write(data)
        for write in (np.savez, np.savez_compressed):
            file.seek(0)
            file.truncate()
            write(Pipe(), **arrays)
            file.flush()
            convert(f"{folder}/a.npz", f"{folder}/b.npz")
            with np.load(f"{folder}/b.npz") as back:
                assert set(back.files) == set(arrays) and same(back["zeros"], arrays["zeros"])
    np.savez(f"{folder}/a.npz")
    convert(f"{folder}/a.npz", f"{folder}/b.npz")
    assert np.load(f"{folder}/b.npz").files == []
    # More members than zip's 16 bits count.
    with zipfile.ZipFile(f"{folder}/a.npz", "w", allowZip64=True) as archive:
        one = io.BytesIO()
        np.save(one, np.float32(2))
        for i in range(65600):
            archive.writestr(f"{i}.npy", one.getvalue())
    convert(f"{folder}/a.npz", f"{folder}/b.npz")
    with np.load(f"{folder}/b.npz") as back:
        assert len(back.files) == 65600 and back["65599"] == 2


def safe(folder):
    held = [d for d in DTYPES if d != "complex128"]
    for dtype in held:
        for shape in SHAPES:
            safetensors.numpy.save_file({"x": array(dtype, shape)}, f"{folder}/a.safetensors")
            for options in ([], ["mapped"]):
                convert(f"{folder}/a.safetensors", f"{folder}/b.safetensors", *options)
                assert contents(f"{folder}/a.safetensors") == contents(f"{folder}/b.safetensors"), (dtype, shape)
    arrays = {f"{name}{i}": array(dtype, shape) for dtype in held for i, shape in enumerate(SHAPES)
              for name in (dtype, "ü", 'q"\\\t/') if name != dtype or i % 2}
    safetensors.numpy.save_file(arrays, f"{folder}/a.safetensors", metadata={"format": "np \"x\" ü"})
    said = convert(f"{folder}/a.safetensors", f"{folder}/b.safetensors")
    assert said == ['format=np "x" ü'], said
    assert contents(f"{folder}/a.safetensors") == contents(f"{folder}/b.safetensors")
    convert(f"{folder}/a.safetensors", f"{folder}/b.npz", "mapped")
    with np.load(f"{folder}/b.npz") as back:
        assert all(same(back[name], x) for name, x in arrays.items())
    safetensors.numpy.save_file({"h": array("uint16", (3, 5)).view(ml_dtypes.bfloat16)}, f"{folder}/a.safetensors")
    convert(f"{folder}/a.safetensors", f"{folder}/b.safetensors")
    assert contents(f"{folder}/a.safetensors") == contents(f"{folder}/b.safetensors")
    for small in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        safetensors.numpy.save_file({"f": array("uint8", (3, 5)).view(small)}, f"{folder}/a.safetensors")
        convert(f"{folder}/a.safetensors", f"{folder}/b.safetensors")
        assert contents(f"{folder}/a.safetensors") == contents(f"{folder}/b.safetensors")
    safetensors.numpy.save_file({}, f"{folder}/a.safetensors")
    convert(f"{folder}/a.safetensors", f"{folder}/b.safetensors")
    assert contents(f"{folder}/a.safetensors") == contents(f"{folder}/b.safetensors")


def ggufs(folder):
    kinds = gguf.GGMLQuantizationType
    writer = gguf.GGUFWriter(f"{folder}/a.gguf", "llama")
    writer.add_string("general.name", "näme")
    writer.add_uint32("a.number", 7)
    writer.add_float32("a.float", 0.5)
    writer.add_bool("a.bool", True)
    writer.add_array("a.list", ["x", "y"])
    writer.add_array("a.numbers", [1, 2, 3])
    expected = {}
    for dtype in ("float16", "float32", "float64", "int8", "int16", "int32", "int64"):
        for i, shape in enumerate([(3, 4), (5,), (2, 3, 4)]):
            expected[f"{dtype}.{i}"] = array(dtype, shape)
            writer.add_tensor(f"{dtype}.{i}", expected[f"{dtype}.{i}"])
    packed = [kinds.Q4_0, kinds.Q4_1, kinds.Q5_0, kinds.Q5_1, kinds.Q8_0, kinds.Q2_K, kinds.Q3_K, kinds.Q4_K, kinds.Q5_K,
              kinds.Q6_K, kinds.IQ4_NL, kinds.IQ4_XS, kinds.TQ1_0, kinds.TQ2_0, kinds.MXFP4]
    for kind in packed:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        raw = random.integers(0, 256, (3, 512 // block * size), dtype=np.uint8)
        # Scales are halves: all of their bits but those that would make them infinite or NaN.
        places = {kinds.Q2_K: (80, 82), kinds.Q3_K: (108,), kinds.Q6_K: (208,), kinds.Q4_1: (0, 2), kinds.Q5_1: (0, 2),
                  kinds.Q4_K: (0, 2), kinds.Q5_K: (0, 2), kinds.TQ1_0: (52,), kinds.TQ2_0: (64,), kinds.MXFP4: ()}.get(kind, (0,))
        for place in places:
            raw[:, place + 1::size] &= 0xBF
        if kind == kinds.MXFP4:  # an exponent
            raw[:, ::size] &= 0x7F
        writer.add_tensor(kind.name, raw, raw_dtype=kind)
        expected[kind.name] = quants.dequantize(raw, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for options in ([], ["mapped"]):
        said = convert(f"{folder}/a.gguf", f"{folder}/b.npz", *options)
        with np.load(f"{folder}/b.npz") as back:
            assert set(back.files) == set(expected)
            for name, x in expected.items():
                if name in [kind.name for kind in packed]:
                    assert back[name].shape == x.shape and np.allclose(back[name], x, rtol=3e-7, atol=0), name
                else:
                    assert same(back[name], x), name
    for line in ("general.name=näme", "a.number=7", "a.float=0.5", "a.bool=true", 'a.list=["x","y"]', "a.numbers=[1,2,3]"):
        assert line in said, said
    big = gguf.GGUFWriter(f"{folder}/big.gguf", "llama", endianess=gguf.GGUFEndian.BIG)
    x = array("float32", (3, 4))
    big.add_tensor("x", x.copy())
    big.write_header_to_file()
    big.write_kv_data_to_file()
    big.write_tensors_to_file()
    big.close()
    convert(f"{folder}/big.gguf", f"{folder}/b.npz")
    assert same(np.load(f"{folder}/b.npz")["x"], x)


for test in (npy, text, refused, npz, safe, ggufs):
    with tempfile.TemporaryDirectory() as folder:
        test(folder)
program.stdin.close()
assert program.wait() == 0
print(f"{checked} conversions with numpy {np.__version__}, safetensors {safetensors.__version__}")
