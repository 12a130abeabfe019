// Which librill this librill_ops is of: of any other the loader says that it lacks this symbol, before a record has
// registered itself there.
extern "C" __attribute__((visibility("default"))) const char RILL_RELEASE[];

[[gnu::used]] static const char* const librill_of_this_release = RILL_RELEASE;
