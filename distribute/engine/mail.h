// Mail: the notes that ranks send each other, each a few numbers and a short text or tensor. Notes between two ranks
// arrive in order. The meaning of notes is in world.cpp.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace rill::distribute {

struct Mpi;

enum class NoteKind : int32_t {
  call,     // its rank makes a call, with this `hash`; with the data that the call carries
  asks,     // the sender makes a different call: what is the receiver's? With its own call
  tells,    // the answer
  broken,   // two calls that did not agree, or the error of a rank; forwarded to all
  waits,    // who waits for whom, from the rank that asks; forwarded to the one that is waited for
  stands,   // to that rank: how far the sender has got
  is_gone,  // the last of a rank that has failed
};

struct Note {
  NoteKind kind = NoteKind::call;
  int32_t number = 0;
  uint64_t hash = 0;
  std::string text = {};
};

class Mail {
 public:
  static constexpr size_t most = 8192;  // bytes of a text

  Mail(const Mpi& mpi, void* channel);
  Mail(const Mail&) = delete;
  ~Mail();
  void tell(int rank, NoteKind kind, int32_t number, uint64_t hash, std::span<const char> text);
  // Whether one has arrived; then it is in `note`, and its sender in `from`.
  bool hear(int& from, Note& note);
  // Lets go of what MPI has sent; whether that is all. MPI sends on while notes are heard.
  bool is_sent();
  // After the last note of all.
  void stop();

 private:
  void open_next();

  struct Head;
  struct Letter {
    std::unique_ptr<char[]> bytes;
    void* request = nullptr;
  };
  const Mpi& mpi_;
  void* channel_;
  std::vector<Letter> inbox_, sending_;
  std::vector<std::unique_ptr<char[]>> spare_;
  size_t next_ = 0;    // the next slot of the inbox
  size_t closed_ = 0;  // the number of slots before it that were read, and in which no note can arrive
};

}  // namespace rill::distribute
