// The simulated libnvrtc-builtins, which only has to exist: nvrtc.cpp opens it as the real one does.
