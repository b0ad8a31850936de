// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// What the words behind `weftctl set STAGE` make of the options of a stage: KEY=VALUE as in the configuration,
// `match.dest_qp` for a key inside another one, and an empty value to take a key away; on and off for `enabled`.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "switch/config/schema/document.h"
#include "switch/config/schema/validate.h"
#include "switch/pipeline/stage.h"

namespace weft::pipeline {

/// The document that options are changed in: without keys that have no value.
[[nodiscard]] config::DocumentNode editable(const config::Value& options);

/// Changes a map by one word.
/// @param known  what the map may hold
/// @return empty, or what is wrong with the word; values are not checked
[[nodiscard]] std::string apply_word(config::DocumentNode& map, const std::string& word, const config::Schema& known);

/// All that was reported, in one line.
[[nodiscard]] std::string mistakes_of(const config::Diagnostics& diagnostics);

/// Takes a changed document for the options of a stage, or says what is wrong with it: checked as a configuration is.
/// @param check  StageType::check
void change_to(OptionChange& change, const config::DocumentNode& document, std::string_view stage,
               const config::Schema& schema,
               void (*check)(const config::Value&, const SwitchInfo&, config::Diagnostics&), const SwitchInfo& info);

/// StageType::set of a stage whose instances are made anew for other options. Checks these as a configuration is.
/// @param check  StageType::check
[[nodiscard]] OptionChange set_by_words(std::string_view stage, const config::Schema& schema,
                                        void (*check)(const config::Value&, const SwitchInfo&, config::Diagnostics&),
                                        const config::Value& options, const SwitchInfo& info,
                                        std::span<const std::string> words);

}  // namespace weft::pipeline
