// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/torch/settings.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft::inc::pytorch {
namespace {

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

[[noreturn]] void wrong(const char* name, std::string_view should) {
  throw std::runtime_error(std::string("weft: ") + name + " is '" + std::string(variable(name)) + "', and should be " +
                           std::string(should));
}

weft_inc_backend backend() {
  constexpr const char* kName = "WEFT_TORCH_BACKEND";
  constexpr std::array<std::string_view, 4> kBackends{"auto", "switch", "ring", "tree"};
  const std::string_view text = variable(kName);
  if (text.empty()) return WEFT_INC_BACKEND_AUTO;
  for (std::size_t i = 0; i < kBackends.size(); ++i) {
    if (text == kBackends[i]) return static_cast<weft_inc_backend>(i);
  }
  wrong(kName, "auto, switch, ring or tree");
}

std::uint32_t mtu() {
  constexpr const char* kName = "WEFT_TORCH_MTU";
  const std::string_view text = variable(kName);
  std::uint32_t value = 0;
  if (text.empty()) return value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Which of the numbers are MTUs, the library says.
  if (error != std::errc() || end != text.data() + text.size() || value == 0) wrong(kName, "256 to 4096");
  return value;
}

bool reproducible(bool deterministic) {
  constexpr const char* kName = "WEFT_TORCH_REPRODUCIBLE";
  const std::string_view text = variable(kName);
  if (text.empty()) return deterministic;
  if (text != "0" && text != "1") wrong(kName, "0 or 1");
  return text == "1";
}

}  // namespace

std::shared_ptr<weft_inc_context> shared_context() {
  static std::mutex mutex;
  static std::weak_ptr<weft_inc_context> shared;
  const std::lock_guard held(mutex);
  if (auto open = shared.lock()) return open;
  weft_inc_options options{};
  options.size = sizeof options;
  options.device = std::getenv("WEFT_TORCH_DEVICE");
  options.interface = std::getenv("WEFT_TORCH_INTERFACE");
  options.address = std::getenv("WEFT_TORCH_ADDRESS");
  weft_inc_context* context = nullptr;
  if (weft_inc_open(&options, &context) != WEFT_INC_OK) {
    throw std::runtime_error(std::string("weft: no RNIC: ") + weft_inc_last_error());
  }
  std::shared_ptr<weft_inc_context> made(context, weft_inc_close);
  shared = made;
  return made;
}

weft_inc_group_options group_options(bool deterministic) {
  weft_inc_group_options options{};
  options.size = sizeof options;
  options.backend = backend();
  options.mtu = mtu();
  options.reproducible = reproducible(deterministic) ? 1 : 0;
  return options;
}

}  // namespace weft::inc::pytorch
