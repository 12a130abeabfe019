"""Writes the files here, which test_tensor_files.cpp reads and fuzz_files.cpp damages. Run in .deps/formats, with numpy
2.4.6, safetensors 0.8.0, ml_dtypes 0.6.0 and gguf 0.19.0: what it writes then is what is committed.
"""
import os
import struct

import gguf
import ml_dtypes
import numpy as np
import safetensors.numpy

os.chdir(os.path.dirname(os.path.abspath(__file__)))
grid = np.arange(6).reshape(2, 3)

np.save("plain.npy", grid.astype("<f4"))
np.save("big.npy", grid.astype(">f8"))
np.save("fortran.npy", np.asfortranarray(grid.astype("<i4")))
np.save("big_fortran_complex.npy", np.asfortranarray((grid * (1 + 2j)).astype(">c8")))
np.save("scalar.npy", np.float16(1.5))
np.save("empty.npy", np.zeros((2, 0, 3), "u1"))
np.save("bools.npy", grid % 2 == 1)
np.save("text.npy", np.array([["a", "käse"], ["", "日本🎉"]]))
np.save("big_text.npy", np.array(["abc", "ü"], ">U3"))
np.save("bytes.npy", np.array([b"a\xff", b"\x00b", b""]))
np.save("structure.npy", np.zeros(2, [("a", "<f4"), ("b", "<i8", (2,))]))
np.save("object.npy", np.array([1, "x", None], object), allow_pickle=True)
np.save("date.npy", np.zeros(2, "<M8[ns]"))
np.save("bfloat16.npy", grid.astype(ml_dtypes.bfloat16))
for version in (2, 3):
    with open(f"version{version}.npy", "wb") as file:
        np.lib.format.write_array(file, grid.astype("<i8"), version=(version, 0))
with open("python2.npy", "wb") as file:  # as numpy 1 wrote it there: longs, keys in another order, padded to 16 bytes
    header = b"{'fortran_order': False, 'shape': (2L, 3L), 'descr': '<f4', }"
    header += b" " * (-(10 + len(header) + 1) % 16) + b"\n"
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + grid.astype("<f4").tobytes())

arrays = {"w": grid.astype("<f4"), "dense/bias": np.arange(3.0), "ünï": np.array(True), "fortran": np.asfortranarray(grid)}
np.savez("stored.npz", **arrays)
np.savez_compressed("deflated.npz", **arrays)
np.savez("none.npz")

safetensors.numpy.save_file(
    {"w": grid.astype("<f4"), "b": np.arange(3, dtype="<i8"), "half": grid.astype(ml_dtypes.bfloat16), "empty": np.zeros((0, 4), "u1"),
     "scalar": np.array(2.5), 'ü"\\/': grid % 2 == 1}, "several.safetensors", metadata={"step": "3"})
safetensors.numpy.save_file({"f": np.zeros(4, ml_dtypes.float8_e4m3fn), "w": grid.astype("<f2")}, "float8.safetensors")

for name, order in (("several.gguf", gguf.GGUFEndian.LITTLE), ("big.gguf", gguf.GGUFEndian.BIG)):
    writer = gguf.GGUFWriter(name, "llama", endianess=order)
    writer.add_string("general.name", "fixture")
    writer.add_array("tokens", ["a", "b\"c"])
    writer.add_float32("scale", 0.5)
    writer.add_tensor("w", grid.astype("f4"))
    writer.add_tensor("h", np.arange(3, dtype="f2"))
    if order == gguf.GGUFEndian.LITTLE:
        numbers = np.linspace(-1, 1, 256, dtype="f4").reshape(1, 256)
        for kind in (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q5_1):
            writer.add_tensor(kind.name, gguf.quants.quantize(numbers, kind), raw_dtype=kind)
        raw = np.full((1, 210), 1, np.uint8)
        writer.add_tensor("Q6_K", raw, raw_dtype=gguf.GGMLQuantizationType.Q6_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
