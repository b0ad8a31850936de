// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "tools/experiment/command_line.h"

#include <charconv>
#include <cstdint>
#include <vector>

#include "switch/config/schema/suggest.h"

namespace weft::experiment {

std::string check_seed(const std::string& text) {
  std::int64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc{} && end == text.data() + text.size() && seed >= 0) return {};
  return "expected an integer from 0 to " + std::to_string(INT64_MAX) + ", found " + config::quote(text);
}

std::string check_set(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals != text.npos && equals != 0) return {};
  return "expected KEY=VALUE, as switch.lb=ecmp, found " + config::quote(text);
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const auto extras = app.remaining(true);
  if (extras.empty()) return error.what();
  const std::string& word = extras.front();
  std::vector<std::string> known;
  const auto chosen = app.get_subcommands();
  if (word.starts_with('-')) {
    const CLI::App& command = chosen.empty() ? app : *chosen.front();
    for (const auto* option : command.get_options()) {
      for (const auto& name : option->get_lnames()) known.push_back("--" + name);
    }
  } else if (chosen.empty()) {
    for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
      known.push_back(command->get_name());
    }
  }
  const std::string kind = word.starts_with('-') ? "option" : chosen.empty() ? "command" : "word";
  // What --jsno=x was is said without its value.
  const std::string name = word.starts_with("--") ? word.substr(0, word.find('=')) : word;
  return "unknown " + kind + " " + config::quote(name) + config::suggestion(name, known);
}

}  // namespace weft::experiment
