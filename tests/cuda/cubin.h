// The resources that a kernel uses, read from its machine code. The notes of a cubin (section .nv.info) are records of
// a format byte, an attribute byte and two bytes of value, or of size if the format is 4 and the value follows; those
// for registers (0x2f) and stack (0x11) hold a symbol's number and the count.
#pragma once
#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace cubin {

struct Resources {
  int registers = -1, stack = -1;  // for each thread; bytes of stack: arrays and spilled registers
};

struct Section {
  std::string name;
  size_t begin = 0, bytes = 0;
};

inline std::vector<Section> sections(const std::string& code) {
  Elf64_Ehdr head{};
  if (code.size() < sizeof head) return {};
  std::memcpy(&head, code.data(), sizeof head);
  const auto header = [&](int i) {
    Elf64_Shdr s{};
    std::memcpy(&s, code.data() + head.e_shoff + size_t(i) * head.e_shentsize, sizeof s);
    return s;
  };
  const Elf64_Shdr names = header(head.e_shstrndx);
  std::vector<Section> all;
  for (int i = 0; i < head.e_shnum; ++i) {
    const Elf64_Shdr s = header(i);
    all.push_back({code.data() + names.sh_offset + s.sh_name, s.sh_offset, s.sh_size});
  }
  return all;
}

inline Resources resources(const std::string& code) {
  Resources r;
  for (const Section& s : sections(code)) {
    if (s.name != ".nv.info") continue;
    for (size_t at = s.begin; at + 4 <= s.begin + s.bytes;) {
      const auto format = uint8_t(code[at]), attribute = uint8_t(code[at + 1]);
      uint16_t size = 0;
      std::memcpy(&size, code.data() + at + 2, 2);
      at += 4;
      if (format != 4) continue;
      uint32_t count = 0;
      if (size >= 8) std::memcpy(&count, code.data() + at + 4, 4);
      if (attribute == 0x2f) r.registers = int(count);
      if (attribute == 0x11) r.stack = int(count);
      at += size;
    }
  }
  return r;
}

// The instructions of the longest kernel: its section .text.NAME, in bytes.
inline Section longest(const std::string& code) {
  Section most;
  for (const Section& s : sections(code))
    if (s.name.starts_with(".text.") && s.bytes > most.bytes) most = s;
  return most;
}

}  // namespace cubin
