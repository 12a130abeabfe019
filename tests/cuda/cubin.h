// What a kernel takes of a GPU, read from its machine code. The notes of a cubin (section .nv.info) are records of a
// format byte, an attribute byte and two bytes of value, or of size where the format is 4 and the value follows; those
// for registers (0x2f) and stack (0x11) hold a symbol's number and the count.
#pragma once
#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace cubin {

struct Resources {
  int registers = -1, stack = -1;  // a thread's; bytes of stack: arrays and what did not fit the registers
};

inline Resources resources(const std::string& code) {
  Elf64_Ehdr head{};
  if (code.size() < sizeof head) return {};
  std::memcpy(&head, code.data(), sizeof head);
  const auto section = [&](int i) {
    Elf64_Shdr s{};
    std::memcpy(&s, code.data() + head.e_shoff + size_t(i) * head.e_shentsize, sizeof s);
    return s;
  };
  const Elf64_Shdr names = section(head.e_shstrndx);
  Resources r;
  for (int i = 0; i < head.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    if (std::strcmp(code.data() + names.sh_offset + s.sh_name, ".nv.info") != 0) continue;
    for (size_t at = s.sh_offset; at + 4 <= s.sh_offset + s.sh_size;) {
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

}  // namespace cubin
