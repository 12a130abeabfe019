#include "rill/train/signals.h"

#include <cstdlib>
#include <initializer_list>

namespace rill::train {

namespace {
volatile std::sig_atomic_t noted = 0;
// The second one, whichever it is, does what it always did.
void note(int number) {
  noted = number;
  for (const int each : {SIGTERM, SIGINT}) {
    struct sigaction now = {};
    if (sigaction(each, nullptr, &now) == 0 && now.sa_handler == note) std::signal(each, SIG_DFL);
  }
}

// What is ignored stays so: a program in the background of a shell is not to end by the terminal's Ctrl-C.
void listen(int number, struct sigaction& before) {
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;  // no read fails
  sigemptyset(&action.sa_mask);
  sigaction(number, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
}
}  // namespace

SignalScope::SignalScope(bool on) : on_(on) {
  if (!on_) return;
  noted = 0;
  listen(SIGTERM, term_);
  listen(SIGINT, interrupt_);
}
SignalScope::~SignalScope() {
  if (!on_) return;
  sigaction(SIGTERM, &term_, nullptr);
  sigaction(SIGINT, &interrupt_, nullptr);
  if (const int number = noted) noted = 0, std::raise(number);  // it came when the run was over
}
int SignalScope::came() { return noted; }
void SignalScope::end() {
  const int number = noted;
  std::signal(number, SIG_DFL);
  std::raise(number);
  std::exit(128 + number);
}

}  // namespace rill::train
