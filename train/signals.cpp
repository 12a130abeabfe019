#include "rill/train/signals.h"

#include <cstdlib>

namespace rill::train {

namespace {
volatile std::sig_atomic_t noted = 0;
void note(int number) { noted = number; }
}  // namespace

SignalScope::SignalScope(bool on) : on_(on) {
  if (!on_) return;
  noted = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESETHAND;  // the second one does what it always did
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, &term_);
  sigaction(SIGINT, &action, &interrupt_);
}
SignalScope::~SignalScope() {
  if (!on_) return;
  sigaction(SIGTERM, &term_, nullptr);
  sigaction(SIGINT, &interrupt_, nullptr);
}
int SignalScope::came() { return noted; }
void SignalScope::end() {
  const int number = noted;
  std::signal(number, SIG_DFL);
  std::raise(number);
  std::exit(128 + number);
}

}  // namespace rill::train
