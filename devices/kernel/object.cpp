// Sections that a program needs at run time are placed one after another in one mapping, code and constants alike,
// followed by a stub (a jump through a 64-bit address) for each called function of the C library, since those may be
// too far for a call instruction. Start at load_code().
#include "rill/devices/kernel/object.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "rill/tensor/error.h"

namespace rill::kernel {

namespace {

[[noreturn]] void reject(std::string what) { throw Error("[kernel] an object file " + what); }

// --- What code may call ----------------------------------------------------------------------------------------------
// LLVM calls these if the processor lacks an instruction (fma, rounding), and for block copies.

float round_even(float x) { return __builtin_rintf(x); }
double round_even(double x) { return __builtin_rint(x); }

const void* library_function(std::string_view name) {
  struct Entry {
    std::string_view name;
    const void* address;
  };
  const auto f32 = [](float (*f)(float)) { return reinterpret_cast<const void*>(f); };
  const auto f64 = [](double (*f)(double)) { return reinterpret_cast<const void*>(f); };
  static const Entry table[] = {
      {"memcpy", reinterpret_cast<const void*>(static_cast<void* (*)(void*, const void*, size_t)>(std::memcpy))},
      {"memset", reinterpret_cast<const void*>(static_cast<void* (*)(void*, int, size_t)>(std::memset))},
      {"fmaf", reinterpret_cast<const void*>(static_cast<float (*)(float, float, float)>(std::fma))},
      {"fma", reinterpret_cast<const void*>(static_cast<double (*)(double, double, double)>(std::fma))},
      {"floorf", f32(std::floor)},
      {"floor", f64(std::floor)},
      {"ceilf", f32(std::ceil)},
      {"ceil", f64(std::ceil)},
      {"truncf", f32(std::trunc)},
      {"trunc", f64(std::trunc)},
      {"rintf", f32(round_even)},
      {"rint", f64(round_even)},
      {"roundevenf", f32(round_even)},
      {"roundeven", f64(round_even)},
      {"sqrtf", f32(std::sqrt)},
      {"sqrt", f64(std::sqrt)},
  };
  for (const Entry& e : table)
    if (e.name == name) return e.address;
  reject(fmt::format("calls {}, which kernels have no use for", name));
}

// --- Reading ---------------------------------------------------------------------------------------------------------

class File {
 public:
  explicit File(std::string_view bytes) : bytes_(bytes) {}
  // `count` records of type T at `offset`.
  template <class T>
  std::vector<T> table(uint64_t offset, uint64_t count) const {
    if (count > bytes_.size() / sizeof(T)) reject("has a table that is too long");
    const std::string_view part = piece(offset, count * sizeof(T));
    std::vector<T> records(count);
    if (count > 0) std::memcpy(records.data(), part.data(), part.size());
    return records;
  }
  std::string_view piece(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) reject("points past its end");
    return bytes_.substr(offset, size);
  }
  std::string_view text(const Elf64_Shdr& strings, uint64_t offset) const {
    const std::string_view part = piece(strings.sh_offset, strings.sh_size);
    const size_t end = offset < part.size() ? part.find('\0', offset) : std::string_view::npos;
    if (end == std::string_view::npos) reject("has a name without an end");
    return part.substr(offset, end - offset);
  }

 private:
  std::string_view bytes_;
};

// --- Relocations -----------------------------------------------------------------------------------------------------

#if defined(__x86_64__)
constexpr int machine = EM_X86_64;
constexpr uint64_t stub_bytes = 16, address_in_stub = 8;
constexpr uint8_t stub_code[8] = {0xff, 0x25, 2, 0, 0, 0, 0x0f, 0x0b};  // jmp [rip + 2]; ud2; the address
#elif defined(__aarch64__)
constexpr int machine = EM_AARCH64;
constexpr uint64_t stub_bytes = 16, address_in_stub = 8;
constexpr uint8_t stub_code[8] = {0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6};  // ldr x16, 8; br x16; the address
#else
constexpr int machine = EM_NONE;
constexpr uint64_t stub_bytes = 16, address_in_stub = 8;
constexpr uint8_t stub_code[8] = {};
#endif

template <class T>
void put(char* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

int64_t within(int64_t value, int bits) {
  if (value < -(int64_t(1) << (bits - 1)) || value >= int64_t(1) << (bits - 1)) reject("jumps too far");
  return value;
}

// The address where a field will run, and where it is written now; they differ, as the mapping is filled before it is
// made executable.
struct Field {
  char* at;        // of the field
  uint64_t here;   // its address
  uint64_t value;  // symbol + addend
  uint64_t stub;   // the address of the symbol's table entry, for calls through a table; else 0
  int64_t addend;
};

// The number of bytes that a relocation of this type changes; 0 for an unknown type.
uint64_t field_bytes(uint32_t type) {
#if defined(__x86_64__)
  switch (type) {
    case R_X86_64_64: return 8;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX: return 4;
    default: return 0;
  }
#elif defined(__aarch64__)
  switch (type) {
    case R_AARCH64_ABS64: return 8;
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
    case R_AARCH64_LDST16_ABS_LO12_NC:
    case R_AARCH64_LDST32_ABS_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LDST128_ABS_LO12_NC: return 4;
    default: return 0;
  }
#else
  (void)type;
  return 0;
#endif
}

void relocate(uint32_t type, const Field& p) {
#if defined(__x86_64__)
  switch (type) {
    case R_X86_64_64: return put(p.at, p.value);
    case R_X86_64_PC32:
    case R_X86_64_PLT32: return put(p.at, int32_t(within(int64_t(p.value - p.here), 32)));
    default:
      if (p.stub == 0) reject("asks for the address of what is in itself");
      return put(p.at, int32_t(within(int64_t(p.stub + uint64_t(p.addend) - p.here), 32)));
  }
#elif defined(__aarch64__)
  uint32_t word;
  std::memcpy(&word, p.at, 4);
  const auto low12 = [&](int shift) { put(p.at, word | uint32_t(((p.value & 0xfff) >> shift) << 10)); };
  switch (type) {
    case R_AARCH64_ABS64: return put(p.at, p.value);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26: return put(p.at, word | (uint32_t(within(int64_t(p.value - p.here), 28) >> 2) & 0x3ffffff));
    case R_AARCH64_ADR_PREL_PG_HI21: {
      const int64_t pages = within(int64_t((p.value & ~uint64_t(0xfff)) - (p.here & ~uint64_t(0xfff))), 33) >> 12;
      return put(p.at, word | uint32_t(pages & 3) << 29 | uint32_t(pages >> 2 & 0x7ffff) << 5);
    }
    case R_AARCH64_LDST16_ABS_LO12_NC: return low12(1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return low12(2);
    case R_AARCH64_LDST64_ABS_LO12_NC: return low12(3);
    case R_AARCH64_LDST128_ABS_LO12_NC: return low12(4);
    default: return low12(0);
  }
#else
  (void)type;
  (void)p;
#endif
}

// --- Loading ---------------------------------------------------------------------------------------------------------

constexpr uint64_t absent = ~uint64_t(0);

class Loader {
 public:
  explicit Loader(std::string_view bytes) : file_(bytes) {
    const Elf64_Ehdr h = file_.table<Elf64_Ehdr>(0, 1)[0];
    if (std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_type != ET_REL)
      reject("is none");
    if (h.e_machine != machine) reject("is for another processor");
    sections_ = file_.table<Elf64_Shdr>(h.e_shoff, h.e_shnum);
    if (h.e_shstrndx >= sections_.size()) reject("has no names");
    names_ = sections_[h.e_shstrndx];
    lay_out();
    read_symbols();
  }
  ~Loader() {
    if (memory_) munmap(memory_, bytes_);
  }

  std::shared_ptr<void> load(std::string_view function) {
    uint64_t entry = absent;
    for (const Elf64_Sym& s : symbols_)
      if (file_.text(symbol_names_, s.st_name) == function) entry = offset_of(s);
    if (entry == absent) reject(fmt::format("has no {}", function));
    map();
    for (const Elf64_Shdr& s : sections_)
      if (s.sh_type == SHT_RELA && s.sh_info < offset_.size() && offset_[s.sh_info] != absent) relocate_section(s);
    if (mprotect(memory_, bytes_, PROT_READ | PROT_EXEC) != 0) reject("was refused by the system as code");
    __builtin___clear_cache(memory_, memory_ + bytes_);
    const std::shared_ptr<void> mapping(std::exchange(memory_, nullptr), [n = bytes_](void* p) { munmap(p, n); });
    return {mapping, static_cast<char*>(mapping.get()) + entry};
  }

 private:
  // Assigns an offset to each section that is needed at run time.
  void lay_out() {
    for (const Elf64_Shdr& s : sections_) {
      const bool is_needed = (s.sh_flags & SHF_ALLOC) && (s.sh_type == SHT_PROGBITS || s.sh_type == SHT_NOBITS) &&
                             file_.text(names_, s.sh_name) != ".eh_frame";
      offset_.push_back(absent);
      if (!is_needed) continue;
      const uint64_t align = s.sh_addralign ? s.sh_addralign : 1;
      if (align > 4096 || (align & (align - 1)) || s.sh_size > (64u << 20)) reject("has a section of no sensible size");
      if (s.sh_type == SHT_PROGBITS) file_.piece(s.sh_offset, s.sh_size);
      size_ = (size_ + align - 1) / align * align;
      offset_.back() = size_;
      size_ += s.sh_size;
      if (size_ > (256u << 20)) reject("is too big");
    }
  }

  void read_symbols() {
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type != SHT_SYMTAB) continue;
      symbols_ = file_.table<Elf64_Sym>(s.sh_offset, s.sh_size / sizeof(Elf64_Sym));
      if (s.sh_link >= sections_.size()) reject("has symbols without names");
      symbol_names_ = sections_[s.sh_link];
    }
    stub_.assign(symbols_.size(), absent);
    size_ = (size_ + 15) / 16 * 16;
    for (size_t i = 1; i < symbols_.size(); ++i) {
      if (symbols_[i].st_shndx != SHN_UNDEF) continue;
      stub_[i] = size_;
      size_ += stub_bytes;
    }
  }

  // The offset of a symbol in the mapping; `absent` if its section is not in it.
  uint64_t offset_of(const Elf64_Sym& s) const {
    if (s.st_shndx >= sections_.size() || offset_[s.st_shndx] == absent) return absent;
    if (s.st_value > sections_[s.st_shndx].sh_size) reject("has a symbol outside of its section");
    return offset_[s.st_shndx] + s.st_value;
  }

  void map() {
    const uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
    bytes_ = (size_ + page - 1) / page * page;
    void* p = bytes_ ? mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (p == MAP_FAILED) reject("found no memory");
    memory_ = static_cast<char*>(p);
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (offset_[i] == absent || sections_[i].sh_type != SHT_PROGBITS) continue;
      const std::string_view part = file_.piece(sections_[i].sh_offset, sections_[i].sh_size);
      std::memcpy(memory_ + offset_[i], part.data(), part.size());
    }
    for (size_t i = 0; i < symbols_.size(); ++i) {
      if (stub_[i] == absent) continue;
      std::memcpy(memory_ + stub_[i], stub_code, sizeof(stub_code));
      put(memory_ + stub_[i] + address_in_stub, library_function(file_.text(symbol_names_, symbols_[i].st_name)));
    }
  }

  void relocate_section(const Elf64_Shdr& s) {
    const uint64_t base = reinterpret_cast<uint64_t>(memory_);
    for (const Elf64_Rela& r : file_.table<Elf64_Rela>(s.sh_offset, s.sh_size / sizeof(Elf64_Rela))) {
      const uint32_t type = uint32_t(ELF64_R_TYPE(r.r_info)), symbol = uint32_t(ELF64_R_SYM(r.r_info));
      const uint64_t field = field_bytes(type), size = sections_[s.sh_info].sh_size;
      if (field == 0) reject(fmt::format("has a relocation of type {}", type));
      if (symbol >= symbols_.size() || r.r_offset > size || field > size - r.r_offset) reject("relocates past its end");
      const uint64_t target = stub_[symbol] != absent ? stub_[symbol] : offset_of(symbols_[symbol]);
      if (target == absent) reject("relocates to nowhere");
      const uint64_t at = offset_[s.sh_info] + r.r_offset;
      const uint64_t slot = stub_[symbol] != absent ? base + stub_[symbol] + address_in_stub : 0;
      relocate(type, {memory_ + at, base + at, base + target + uint64_t(r.r_addend), slot, r.r_addend});
    }
  }

  File file_;
  std::vector<Elf64_Shdr> sections_;
  Elf64_Shdr names_{}, symbol_names_{};
  std::vector<Elf64_Sym> symbols_;
  std::vector<uint64_t> offset_, stub_;  // for each section; for each symbol that is a library function
  uint64_t size_ = 0, bytes_ = 0;
  char* memory_ = nullptr;
};

}  // namespace

std::shared_ptr<void> load_code(std::string_view file, std::string_view name) { return Loader(file).load(name); }

}  // namespace rill::kernel
