// Functions of the driver that cuDNN looks up besides those that rill calls. Making a plan needs none of them.
constexpr int not_supported = 801;

#define RILL_CALL(name) \
  int name() { return not_supported; }

extern "C" {
RILL_CALL(cuCtxGetLimit)
RILL_CALL(cuCtxPopCurrent)
RILL_CALL(cuCtxPushCurrent)
RILL_CALL(cuGetExportTable)
RILL_CALL(cuDeviceGetDefaultMemPool)
RILL_CALL(cuKernelGetAttribute)
RILL_CALL(cuKernelGetFunction)
RILL_CALL(cuKernelSetAttribute)
RILL_CALL(cuLaunchCooperativeKernel)
RILL_CALL(cuLaunchKernelEx)
RILL_CALL(cuLibraryGetKernel)
RILL_CALL(cuLibraryLoadData)
RILL_CALL(cuLibraryLoadFromFile)
RILL_CALL(cuLibraryUnload)
RILL_CALL(cuLinkAddData)
RILL_CALL(cuLinkComplete)
RILL_CALL(cuLinkCreate)
RILL_CALL(cuLinkDestroy)
RILL_CALL(cuModuleUnload)
RILL_CALL(cuMemAllocAsync)
RILL_CALL(cuOccupancyMaxPotentialClusterSize)
RILL_CALL(cuStreamGetCtx)
RILL_CALL(cuTensorMapEncodeIm2col)
RILL_CALL(cuTensorMapEncodeTiled)
}
