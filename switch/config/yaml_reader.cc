// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <utility>
#include <vector>

#include "switch/config/schema/suggest.h"

namespace weft::config {
namespace {

using Kind = DocumentNode::Kind;

// Thrown through the parser after the reason was reported.
struct Refused {};

// Positions of a text: from the parser's (bytes, from 0) to ours (characters, from 1).
class Positions {
 public:
  Positions(std::string_view text, const std::string& file) : text_(text), file_(file), starts_{0} {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
    }
  }

  [[nodiscard]] Mark mark(const YAML::Mark& m) const {
    if (m.line < 0) return {file_, 0, 0};
    const auto line = std::min(static_cast<std::size_t>(m.line), starts_.size() - 1);
    int column = 1;
    const std::size_t end = std::min(starts_[line] + static_cast<std::size_t>(std::max(m.column, 0)), text_.size());
    for (std::size_t i = starts_[line]; i < end; ++i) column += (static_cast<unsigned char>(text_[i]) & 0xc0) != 0x80;
    return {file_, static_cast<int>(line) + 1, column};
  }

  [[nodiscard]] Mark at_byte(std::size_t offset) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
    const auto line = static_cast<int>(after - starts_.begin()) - 1;
    YAML::Mark m;
    m.line = line;
    m.column = static_cast<int>(offset - starts_[static_cast<std::size_t>(line)]);
    return mark(m);
  }

  // What is written there: "null", "~", or "" when the parser means an absent value.
  [[nodiscard]] std::string null_text(const YAML::Mark& m) const {
    if (m.pos < 0 || static_cast<std::size_t>(m.pos) >= text_.size()) return {};
    const auto rest = text_.substr(static_cast<std::size_t>(m.pos));
    for (const std::string_view word : {"null", "Null", "NULL", "~"}) {
      if (rest.starts_with(word)) return std::string(word);
    }
    return {};
  }

 private:
  std::string_view text_;
  std::string file_;
  std::vector<std::size_t> starts_;
};

// Builds the document from the parser's events.
class Builder : public YAML::EventHandler {
 public:
  Builder(const Positions& positions, const YamlLimits& limits, Diagnostics& diagnostics)
      : positions_(positions), limits_(limits), diagnostics_(diagnostics) {}

  DocumentNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(started_, true)) refuse(positions_.mark(mark), "a second YAML document; expected one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    DocumentNode node;
    node.mark = positions_.mark(mark);
    node.text = positions_.null_text(mark);
    // An absent value has the position of whatever follows; that of its key tells more.
    if (node.text.empty() && !open_.empty() && open_.back().has_key) node.mark = open_.back().key_mark;
    finish(std::move(node), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    DocumentNode node;
    node.mark = positions_.mark(mark);
    if (tag != "?" && tag != "!") refuse_tag(node.mark, tag);
    node.kind = tag == "!" ? Kind::quoted : Kind::plain;
    node.text = value;
    finish(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(positions_.mark(mark), "an alias inside of what it stands for");
    DocumentNode copy = found->second;
    count(copy);
    attach(std::move(copy));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  // A list or map that is being read.
  struct Open {
    DocumentNode node{};
    YAML::anchor_t anchor = 0;
    bool has_key = false;
    bool key_is_duplicate = false;
    std::string key{};
    Mark key_mark{};
    std::unordered_map<std::string, int> lines{};  // of the keys so far
  };

  [[noreturn]] void refuse(const Mark& mark, std::string text) {
    diagnostics_.error(mark, std::move(text));
    throw Refused{};
  }

  [[noreturn]] void refuse_tag(const Mark& mark, const std::string& tag) {
    refuse(mark, "tag " + quote(tag) + "; tags are not supported");
  }

  void open(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    Open o;
    o.node.kind = kind;
    o.node.mark = positions_.mark(mark);
    o.anchor = anchor;
    // The parser says "?" for no tag, and "" for the anchored or compact ones.
    if (tag != "?" && !tag.empty()) refuse_tag(o.node.mark, tag);
    if (open_.size() >= kMaxYamlDepth) {
      refuse(o.node.mark, "nested more than " + std::to_string(kMaxYamlDepth) + " levels deep");
    }
    open_.push_back(std::move(o));
  }

  void close() {
    DocumentNode node = std::move(open_.back().node);
    const auto anchor = open_.back().anchor;
    open_.pop_back();
    finish(std::move(node), anchor);
  }

  // A node is complete: remembers it under its anchor and puts it into its parent.
  void finish(DocumentNode node, YAML::anchor_t anchor) {
    charge(node);
    if (anchor != 0) {
      count(node);
      anchors_.insert_or_assign(anchor, node);
    }
    attach(std::move(node));
  }

  void attach(DocumentNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.has_key) {
      take_key(parent, std::move(node));
    } else {
      parent.has_key = false;
      if (!parent.key_is_duplicate) {
        parent.node.entries.push_back({std::move(parent.key), parent.key_mark, std::move(node)});
      }
    }
  }

  void take_key(Open& parent, DocumentNode key) {
    if (key.kind != Kind::plain && key.kind != Kind::quoted) {
      // `null: x` is a key by its text; anything else is no word.
      if (key.kind != Kind::null || key.text.empty()) refuse(key.mark, "expected a key, found " + describe_found(key));
    }
    const auto [first, inserted] = parent.lines.emplace(key.text, key.mark.line);
    if (!inserted) {
      diagnostics_.error(key.mark,
                         "key " + quote(key.text) + " stands twice, first at line " + std::to_string(first->second));
    }
    parent.has_key = true;
    parent.key_is_duplicate = !inserted;
    parent.key = std::move(key.text);
    parent.key_mark = std::move(key.mark);
  }

  // Counts one new node.
  void charge(const DocumentNode& node) {
    nodes_ += 1;
    bytes_ += node.text.size();
    if (nodes_ > limits_.nodes) {
      refuse(node.mark, "more than " + std::to_string(limits_.nodes) + " values, aliases counted as what they mean");
    }
    if (bytes_ > limits_.expanded_bytes) {
      refuse(node.mark, "more than " + std::to_string(limits_.expanded_bytes) +
                            " bytes of text, aliases counted as what they mean");
    }
  }

  // Counts a copy.
  void count(const DocumentNode& node) {
    charge(node);
    for (const auto& item : node.items) count(item);
    for (const auto& entry : node.entries) {
      bytes_ += entry.key.size();
      count(entry.value);
    }
  }

  const Positions& positions_;
  const YamlLimits& limits_;
  Diagnostics& diagnostics_;
  DocumentNode root_;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, DocumentNode> anchors_;
  std::size_t nodes_ = 0;
  std::size_t bytes_ = 0;
  bool started_ = false;
};

// Offset of the first byte that is not part of well-formed UTF-8 text, or npos. Controls other than tab and line ends
// are not text either.
std::size_t first_bad_byte(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u; };
    const unsigned lead = byte(0);
    if (lead < 0x80) {
      if ((lead < 0x20 && lead != '\t' && lead != '\n' && lead != '\r') || lead == 0x7f) return i;
      ++i;
      continue;
    }
    const std::size_t length = lead >= 0xc2 && lead < 0xe0   ? 2
                               : lead >= 0xe0 && lead < 0xf0 ? 3
                               : lead >= 0xf0 && lead < 0xf5 ? 4
                                                             : 0;
    if (length == 0) return i;
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(k) & 0xc0) != 0x80) return i;
    }
    // Overlong forms, surrogates, and what lies beyond U+10FFFF.
    if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) >= 0xa0) || (lead == 0xf0 && byte(1) < 0x90) ||
        (lead == 0xf4 && byte(1) >= 0x90)) {
      return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace

std::optional<DocumentNode> read_yaml(std::string_view text, const std::string& file, Diagnostics& diagnostics,
                                      const YamlLimits& limits) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (text.size() > limits.bytes) {
    diagnostics.error({file, 0, 0}, "the file is larger than " + std::to_string(limits.bytes) + " bytes");
    return std::nullopt;
  }
  const Positions positions(text, file);
  if (const auto bad = first_bad_byte(text); bad != std::string_view::npos) {
    diagnostics.error(positions.at_byte(bad), "expected UTF-8 text, found a byte that is none");
    return std::nullopt;
  }
  Builder builder(positions, limits, diagnostics);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refused&) {
    return std::nullopt;
  } catch (const YAML::Exception& e) {
    std::string reason = e.msg;
    // Some reasons end with the character that was found, whatever it is.
    std::replace_if(
        reason.begin(), reason.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
    diagnostics.error(positions.mark(e.mark), "not valid YAML: " + reason);
    return std::nullopt;
  }
  DocumentNode root = builder.take();
  if (root.kind == Kind::null && root.mark.line == 0) root.mark = {file, 1, 1};
  return root;
}

}  // namespace weft::config
