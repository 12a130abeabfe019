// See mail.h.
#include "rill/distribute/engine/mail.h"

#include <algorithm>
#include <cstring>

#include "rill/distribute/engine/world.h"

namespace rill::distribute {

struct Mail::Head {
  NoteKind kind;
  int32_t number;
  uint64_t hash;
};

namespace {
constexpr size_t inbox_size = 8;   // so that a note that arrives while others are read has a slot
constexpr size_t most_closed = 4;  // the number of slots that may wait to be opened again
}  // namespace

Mail::Mail(const Mpi& mpi, void* channel) : mpi_(mpi), channel_(channel) {
  for (size_t i = 0; i < inbox_size; ++i) {
    auto bytes = std::make_unique_for_overwrite<char[]>(sizeof(Head) + most);
    void* request = mpi_.listen(channel, bytes.get(), int(sizeof(Head) + most));
    inbox_.push_back({std::move(bytes), request});
  }
}
Mail::~Mail() = default;

void Mail::tell(int rank, NoteKind kind, int32_t number, uint64_t hash, std::span<const char> text) {
  if (!sending_.empty()) is_sent();
  if (spare_.empty()) spare_.push_back(std::make_unique_for_overwrite<char[]>(sizeof(Head) + most));
  const Head head{kind, number, hash};
  const size_t length = std::min(text.size(), most);
  char* const bytes = spare_.back().get();
  std::memcpy(bytes, &head, sizeof(Head));
  if (length > 0) std::memcpy(bytes + sizeof(Head), text.data(), length);
  if (void* request = mpi_.tell(channel_, bytes, int(sizeof(Head) + length), rank)) {
    sending_.push_back({std::move(spare_.back()), request});
    spare_.pop_back();
  }
}

bool Mail::hear(int& from, Note& note) {
  Letter& letter = inbox_[next_];
  int bytes = 0;
  if (!mpi_.heard(letter.request, &from, &bytes)) {
    if (closed_ > 0) open_next();  // while there is nothing else to do
    return false;
  }
  Head head;
  std::memcpy(&head, letter.bytes.get(), sizeof(Head));
  note.kind = head.kind, note.number = head.number, note.hash = head.hash;
  note.text.assign(letter.bytes.get() + sizeof(Head), size_t(bytes) - sizeof(Head));
  next_ = (next_ + 1) % inbox_.size();
  if (++closed_ == most_closed) open_next();
  return true;
}

// Letters come in the order in which they were opened.
void Mail::open_next() {
  mpi_.listen_again(inbox_[(next_ + inbox_.size() - closed_) % inbox_.size()].request);
  --closed_;
}

bool Mail::is_sent() {
  for (size_t i = 0; i < sending_.size();) {
    if (!mpi_.test(sending_[i].request)) {
      ++i;
      continue;
    }
    spare_.push_back(std::move(sending_[i].bytes));
    sending_.erase(sending_.begin() + long(i));
  }
  return sending_.empty();
}

void Mail::stop() {
  while (closed_ > 0) open_next();  // so that all are alike
  for (Letter& letter : inbox_) mpi_.stop_listening(letter.request);
  inbox_.clear();
}

}  // namespace rill::distribute
