"""tests/scripts/bridge.cpp from Python: Bridge.take(array) is a tensor over an array's memory, Tensor.give() a capsule of one."""
import ctypes
import os

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_GetName.restype = ctypes.c_char_p
api.PyCapsule_GetName.argtypes = [ctypes.py_object]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
NAMES = {True: b"dltensor_versioned", False: b"dltensor"}
USED = {True: b"used_dltensor_versioned", False: b"used_dltensor"}
MODES = ["maxprec", "maxprec_equal", "fixed", "unique"]  # FloatMode


class Tensor:
    def __init__(self, bridge, handle):
        self.bridge, self.handle = bridge, handle

    def __del__(self):
        self.bridge.library.bridge_drop(self.handle)

    def capsule(self, versioned=True, copy=-1):
        pointer = self.bridge.checked(self.bridge.library.bridge_give(self.handle, versioned, copy))
        return api.PyCapsule_New(pointer, NAMES[versioned], None)

    # What numpy and torch ask of an object whose memory they are to share.
    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        versioned = max_version is not None and max_version[0] >= 1
        return self.capsule(versioned, -1 if copy is None else int(copy))

    def __dlpack_device__(self):
        return 1, 0

    def call(self, function, *arguments):
        return Tensor(self.bridge, self.bridge.checked(getattr(self.bridge.library, function)(self.handle, *arguments)))

    def text(self, **options):
        if not options:
            return self.bridge.checked(self.bridge.library.bridge_text(self.handle)).decode()
        o = {"precision": 8, "threshold": 1000, "edgeitems": 3, "linewidth": 75, "suppress": False, "sign": "-",
             "floatmode": "maxprec", **options}
        return self.bridge.checked(self.bridge.library.bridge_text_with(
            self.handle, o["precision"], o["threshold"], o["edgeitems"], o["linewidth"], o["suppress"],
            o["sign"].encode(), MODES.index(o["floatmode"]))).decode()


class Bridge:
    def __init__(self, build):
        self.library = lib = ctypes.CDLL(os.path.join(build, "tests", "libbridge.so"))
        handle, text = ctypes.c_void_p, ctypes.c_char_p
        for name, gives, *takes in [
                ("bridge_error", text), ("bridge_take", handle, handle, ctypes.c_int, ctypes.c_int),
                ("bridge_give", handle, handle, ctypes.c_int, ctypes.c_int), ("bridge_drop", None, handle),
                ("bridge_twice", handle, handle), ("bridge_view", handle, handle, text), ("bridge_update", handle, handle),
                ("bridge_text", text, handle),
                ("bridge_text_with", text, handle, ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
                 ctypes.c_int, ctypes.c_char, ctypes.c_int)]:
            getattr(lib, name).restype = gives
            getattr(lib, name).argtypes = takes

    def checked(self, result):
        if result is None:
            raise RuntimeError(self.library.bridge_error().decode())
        return result

    def take(self, array, versioned=True, copy=-1):
        """A tensor over the memory of `array`."""
        return self.take_capsule(array.__dlpack__(max_version=(1, 1) if versioned else None), copy)

    def take_capsule(self, capsule, copy=-1):
        versioned = api.PyCapsule_GetName(capsule) == NAMES[True]
        pointer = api.PyCapsule_GetPointer(capsule, NAMES[versioned])
        tensor = Tensor(self, self.checked(self.library.bridge_take(pointer, versioned, copy)))
        api.PyCapsule_SetName(capsule, USED[versioned])
        return tensor


class Checks:
    """Counts what it checks."""

    def __init__(self):
        self.count = 0

    def __call__(self, condition, what):
        self.count += 1
        assert condition, what


def error_of(f):
    """The message of what f raises, or nothing."""
    try:
        f()
    except Exception as e:
        return str(e)
    return ""
