"""Shows rill's values in gdb: `print x` gives f32[2,3] and the elements, in place of pointers and counts.

It is installed beside the library as librill.so.VERSION-gdb.py, where gdb finds it by itself once its folder is trusted,
by a line in ~/.config/gdb/gdbinit: `add-auto-load-safe-path /usr/local/lib`. Or say `source .../librill.so.VERSION-gdb.py`.
It reads the program's memory and calls no function of it, so it works for core files too.
"""
import struct

import gdb

# By the number of a DType: name, bytes, and struct's format of an element; bf16, 8-bit floats and complex numbers are
# decoded below.
DTYPES = [("bool", 1, "?"), ("i8", 1, "b"), ("i16", 2, "h"), ("i32", 4, "i"), ("i64", 8, "q"), ("u8", 1, "B"),
          ("u16", 2, "H"), ("u32", 4, "I"), ("u64", 8, "Q"), ("f16", 2, "e"), ("bf16", 2, ""), ("f32", 4, "f"),
          ("f64", 8, "d"), ("c64", 8, "ff"), ("c128", 16, "dd"), ("string", 0, ""),
          ("f8_e4m3fn", 1, ""), ("f8_e5m2", 1, "")]
MOST = 200  # the maximum of elements that are read and shown; of an axis, those before "..."
DELAYED = 0xFFFFFFFF  # the value of TensorRep::trace for a tensor that is computed when it is first read


def small_vec(value):
    """The elements of a SmallVec."""
    return [value["data_"][i] for i in range(int(value["size_"]))]


def size_text(dim):
    """A Dim: its number, or '?' of one that a signature leaves open."""
    bits = int(dim["bits_"])
    return "?" if bits < 0 and (bits & (2**64 - 1)) >> 61 == 5 else str(bits)


def shape_text(shape):
    return "[" + ",".join(map(size_text, small_vec(shape))) + "]"


def dtype_of(spec):
    number = int(spec["dtype"])
    return DTYPES[number] if number < len(DTYPES) else (f"dtype {number}", 0, "")


def spec_text(spec):
    kind, index = int(spec["device"]["kind_"]), int(spec["device"]["index_"])
    where = "" if kind == 0 and index == 0 else f" on {['cpu', 'ref', 'gpu'][kind]}:{index}"
    return dtype_of(spec)[0] + shape_text(spec["shape"]) + where


def element(raw, dtype):
    name, _, code = dtype
    if name == "bf16":
        return struct.unpack("<f", b"\0\0" + raw)[0]
    if name == "f8_e5m2":
        return struct.unpack("<e", b"\0" + raw)[0]
    if name == "f8_e4m3fn":
        exponent, fraction = raw[0] >> 3 & 15, raw[0] & 7
        size = float("nan") if raw[0] & 127 == 127 else (fraction + 8 * (exponent > 0)) * 2.0 ** (max(exponent, 1) - 10)
        return -size if raw[0] & 128 else size
    if len(code) == 2:
        return complex(*struct.unpack("<" + code, raw))
    return struct.unpack("<" + code, raw)[0]


def element_text(raw, dtype):
    value = element(raw, dtype)
    if dtype[0] in ("f16", "bf16", "f32", "f8_e4m3fn", "f8_e5m2"):  # seven digits are enough
        return format(value, ".7g")
    return str(value)


class Elements:
    """The text of a tensor's elements, nested by axis, as far as MOST goes."""

    def __init__(self, rep):
        self.dtype = dtype_of(rep["spec"])
        self.sizes = [int(d["bits_"]) for d in small_vec(rep["spec"]["shape"])]
        self.strides = [int(s) for s in small_vec(rep["strides"])]
        self.data = int(rep["data"])
        self.left = MOST

    def text(self, axis=0, at=0):
        if axis == len(self.sizes):
            self.left -= 1
            size = self.dtype[1]
            raw = gdb.selected_inferior().read_memory(self.data + at * size, size)
            return element_text(bytes(raw), self.dtype)
        parts = []
        for i in range(self.sizes[axis]):
            if self.left <= 0:
                parts.append("...")
                break
            parts.append(self.text(axis + 1, at + i * self.strides[axis]))
        return "[" + ", ".join(parts) + "]"


def tensor_text(tensor):
    pointer = tensor["rep_"]["p_"]
    if int(pointer) == 0:
        return "undefined"
    rep = pointer.dereference()
    spec, trace = spec_text(rep["spec"]), int(rep["trace"])
    if trace == DELAYED:
        return f"{spec}, computed when it is read"
    if trace:
        return f"{spec} <%{int(rep['trace_value'])}> of a traced function"
    name, size, _ = dtype_of(rep["spec"])
    if name == "string":
        return f"{spec} of std::string at {int(rep['data']):#x}"
    if not size or int(rep["spec"]["device"]["kind_"]) == 2:
        return f"{spec} at {int(rep['data']):#x}"
    try:
        return f"{spec} {Elements(rep).text()}"
    except gdb.MemoryError as fault:  # not constructed yet, or destroyed
        return f"{spec}, whose elements cannot be read: {fault}"


class Printer:
    def __init__(self, value, text):
        self.value, self.text = value, text

    def to_string(self):
        try:
            return self.text(self.value)
        except (gdb.error, IndexError) as fault:  # memory that holds no such value yet
            return f"<not readable: {fault}>"


TEXTS = {
    "rill::Tensor": tensor_text,
    "rill::Shape": shape_text,
    "rill::Spec": spec_text,
    "rill::Dim": size_text,
    "rill::Size": size_text,
}


class RillPrinters:
    """What gdb asks for a printer of each value; `info pretty-printer` lists it."""
    name = "rill"
    enabled = True

    def __call__(self, value):
        kind = value.type.strip_typedefs().unqualified()
        if kind.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
            value, kind = value.referenced_value(), kind.target().strip_typedefs().unqualified()
        text = TEXTS.get(kind.name)
        return Printer(value, text) if text else None


# For all programs: rill is in an object file of its own, or linked into the program.
gdb.pretty_printers = [p for p in gdb.pretty_printers if getattr(p, "name", "") != "rill"] + [RillPrinters()]
