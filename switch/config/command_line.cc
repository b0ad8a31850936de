// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/command_line.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "switch/config/schema/suggest.h"

namespace weft::config {
namespace {

// The command that was typed, and those above it, from the program on.
std::vector<const CLI::App*> typed_commands(const CLI::App& app) {
  std::vector<const CLI::App*> path{&app};
  while (true) {
    const auto chosen = path.back()->get_subcommands();
    if (chosen.empty()) return path;
    path.push_back(chosen.front());
  }
}

// What may stand with the command: its own options, and those of commands above it where it hands words up.
std::vector<std::string> known_options(const std::vector<const CLI::App*>& path) {
  std::vector<std::string> known;
  for (std::size_t i = path.size(); i-- > 0;) {
    for (const CLI::Option* option : path[i]->get_options()) {
      for (const auto& name : option->get_lnames()) {
        const bool repeated = std::find(known.begin(), known.end(), "--" + name) != known.end();
        if (!repeated) known.push_back("--" + name);
      }
      if (option->get_lnames().empty()) {
        for (const auto& name : option->get_snames()) known.push_back("-" + name);
      }
    }
    if (!path[i]->get_fallthrough()) break;
  }
  return known;
}

std::vector<std::string> known_commands(const CLI::App& app) {
  std::vector<std::string> known;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(command->get_name());
  }
  return known;
}

}  // namespace

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const auto path = typed_commands(app);
  const auto commands = known_commands(*path.back());
  const auto extras = app.remaining(true);
  if (extras.empty()) {
    // CLI11 says that a subcommand is required, and not which there are.
    const bool missing = !commands.empty() && error.get_name() == "RequiredError";
    return missing ? "a command is needed; known: " + joined(commands) : error.what();
  }
  const std::string& word = extras.front();
  if (word.starts_with('-')) {
    // What --jsno=x was is said without its value.
    const std::string name = word.starts_with("--") ? word.substr(0, word.find('=')) : word;
    const auto known = known_options(path);
    // The program does not know an option of a command that stands in front of it.
    if (std::find(known.begin(), known.end(), name) != known.end()) {
      return "option " + quote(name) + " belongs behind its command";
    }
    return "unknown option " + quote(name) + suggestion(name, known);
  }
  return std::string("unknown ") + (commands.empty() ? "word " : "command ") + quote(word) + suggestion(word, commands);
}

std::string refusal(const CLI::App& app, const CLI::ParseError& error) {
  const std::string sentence = explain(app, error);
  if (sentence.ends_with('?')) return app.get_name() + ": " + sentence + "\n";
  std::string command;
  for (const CLI::App* each : typed_commands(app)) command += (command.empty() ? "" : " ") + each->get_name();
  return app.get_name() + ": " + sentence + "; " + command + " --help explains\n";
}

int end_of_parsing(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  std::fputs(refusal(app, error).c_str(), stderr);
  return kExitUsage;
}

}  // namespace weft::config
