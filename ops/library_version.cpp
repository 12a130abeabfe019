// Which librill this librill_ops is of: librill opens no other.
extern "C" {
#pragma GCC visibility push(default)
extern const char rill_ops_version[];
const char rill_ops_version[] = RILL_VERSION;
#pragma GCC visibility pop
}
