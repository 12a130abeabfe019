// The simulated libnvrtc-builtins, which is there to be found: nvrtc.cpp opens it as the true one does.
