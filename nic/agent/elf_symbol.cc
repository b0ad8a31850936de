// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "nic/agent/elf_symbol.h"

#include <elf.h>

#include <cstring>

namespace weft::agent {
namespace {

constexpr std::uint16_t kHiddenVersion = 0x8000;

// A file that may claim anything: whatever lies outside reads as nothing.
class ElfImage {
 public:
  explicit ElfImage(std::span<const std::uint8_t> bytes) noexcept : bytes_(bytes) {}

  template <typename T>
  [[nodiscard]] std::optional<T> at(std::uint64_t offset) const noexcept {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  // The i-th of a table that begins at `offset`.
  template <typename T>
  [[nodiscard]] std::optional<T> item(std::uint64_t offset, std::uint64_t i) const noexcept {
    if (i > bytes_.size() / sizeof(T) || offset > bytes_.size()) return std::nullopt;
    return at<T>(offset + i * sizeof(T));
  }
  [[nodiscard]] bool has_text(std::uint64_t offset, std::string_view text) const noexcept {
    if (offset > bytes_.size() || bytes_.size() - offset <= text.size()) return false;
    return std::memcmp(bytes_.data() + offset, text.data(), text.size()) == 0 && bytes_[offset + text.size()] == 0;
  }
  [[nodiscard]] std::optional<Elf64_Ehdr> header() const noexcept {
    const auto h = at<Elf64_Ehdr>(0);
    if (!h || std::memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_ident[EI_DATA] != ELFDATA2LSB) {
      return std::nullopt;
    }
    return h;
  }
  [[nodiscard]] std::optional<Elf64_Shdr> section_of_type(const Elf64_Ehdr& h, std::uint32_t type) const noexcept {
    for (unsigned i = 0; i < h.e_shnum; ++i) {
      const auto s = item<Elf64_Shdr>(h.e_shoff, i);
      if (s && s->sh_type == type) return s;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<std::uint64_t> file_offset(const Elf64_Ehdr& h, std::uint64_t address) const noexcept {
    for (unsigned i = 0; i < h.e_phnum; ++i) {
      const auto p = item<Elf64_Phdr>(h.e_phoff, i);
      if (!p || p->p_type != PT_LOAD || (p->p_flags & PF_X) == 0) continue;
      if (address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz) return address - p->p_vaddr + p->p_offset;
    }
    return std::nullopt;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace

std::optional<std::uint64_t> function_offset(std::span<const std::uint8_t> image, std::string_view function) noexcept {
  const ElfImage elf(image);
  const auto h = elf.header();
  if (!h) return std::nullopt;
  const auto symbols = elf.section_of_type(*h, SHT_DYNSYM);
  if (!symbols || symbols->sh_entsize != sizeof(Elf64_Sym)) return std::nullopt;
  const auto names = elf.item<Elf64_Shdr>(h->e_shoff, symbols->sh_link);
  const auto versions = elf.section_of_type(*h, SHT_GNU_versym);
  if (!names) return std::nullopt;
  for (std::uint64_t i = 0; i < symbols->sh_size / sizeof(Elf64_Sym); ++i) {
    const auto symbol = elf.item<Elf64_Sym>(symbols->sh_offset, i);
    if (!symbol) return std::nullopt;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF) continue;
    if (!elf.has_text(names->sh_offset + symbol->st_name, function)) continue;
    const auto version = versions ? elf.item<std::uint16_t>(versions->sh_offset, i) : std::uint16_t{1};
    if (!version || (*version & kHiddenVersion) != 0) continue;
    return elf.file_offset(*h, symbol->st_value);
  }
  return std::nullopt;
}

}  // namespace weft::agent
