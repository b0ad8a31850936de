// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/schema/validate.h"

#include <gtest/gtest.h>

#include "switch/pipeline/registry.h"
#include "tests/switch/config/schema/documents.h"

namespace weft::config {
namespace {

using Key = Schema::Key;
using testing::Doc;
using testing::list_doc;
using testing::map_doc;
using testing::null_doc;
using testing::plain;
using testing::quoted_doc;
using testing::shapes;
using testing::two_keys;

// What validate() reports, without positions; "" when it accepts.
std::string mistakes(const Schema& schema, const Doc& node, const std::string& what = "x") {
  Diagnostics diagnostics;
  (void)validate(schema, node, what, nullptr, diagnostics);
  std::string out;
  for (const auto& entry : diagnostics.entries()) out += (out.empty() ? "" : "|") + entry.text;
  return out;
}

Value accepted(const Schema& schema, const Doc& node) {
  Diagnostics diagnostics;
  Value value = validate(schema, node, "x", nullptr, diagnostics);
  EXPECT_EQ(diagnostics.to_string(), "");
  return value;
}

TEST(Validate, IntegerAcceptsItsBoundsAndRefusesTheirNeighbours) {
  const Schema schema = Schema::integer(-5, 64);
  EXPECT_EQ(accepted(schema, plain("-5")).integer(), -5);
  EXPECT_EQ(accepted(schema, plain("64")).integer(), 64);
  EXPECT_EQ(mistakes(schema, plain("-6")), "x: expected an integer from -5 to 64, found -6");
  EXPECT_EQ(mistakes(schema, plain("65")), "x: expected an integer from -5 to 64, found 65");
}

TEST(Validate, ADictionaryTakesAnyKeysAndChecksEveryValue) {
  const Schema schema = Schema::dictionary(Schema::integer(0, 7));
  const Value value = accepted(schema, map_doc({{"p1|3", plain("1")}, {"0", plain("7")}}));
  EXPECT_EQ(value["p1|3"].integer(), 1);
  EXPECT_EQ(value["0"].integer(), 7);
  EXPECT_EQ(mistakes(schema, map_doc({{"a", plain("8")}, {"b", plain("7")}, {"c", plain("x")}})),
            "a: expected an integer from 0 to 7, found 8|c: expected an integer from 0 to 7, found 'x'");
  EXPECT_EQ(mistakes(schema, plain("3")), "x: expected a map, found 3");
}

TEST(Validate, IntegerReachesBothEndsOf64Bits) {
  const Schema schema = Schema::integer(INT64_MIN, INT64_MAX);
  EXPECT_EQ(accepted(schema, plain("9223372036854775807")).integer(), INT64_MAX);
  EXPECT_EQ(accepted(schema, plain("-9223372036854775808")).integer(), INT64_MIN);
  EXPECT_EQ(mistakes(schema, plain("9223372036854775808")),
            "x: expected an integer from -9223372036854775808 to 9223372036854775807, found 9223372036854775808");
}

TEST(Validate, IntegerIsWrittenInPlainDecimalOnly) {
  const Schema schema = Schema::integer(0, 100000);
  const auto refused = [&](const Doc& node) {
    const std::string text = mistakes(schema, node);
    const std::string start = "x: expected an integer from 0 to 100000, found ";
    EXPECT_TRUE(text.starts_with(start)) << text;
    return text.substr(std::min(start.size(), text.size()));
  };
  EXPECT_EQ(refused(plain("0x10")), "0x10; write it in decimal");
  EXPECT_EQ(refused(plain("0o17")), "0o17; write it in decimal");
  EXPECT_EQ(refused(plain("1_000")), "'1_000'; write it without separators");
  EXPECT_EQ(refused(plain("1,000")), "'1,000'; write it without separators");
  EXPECT_EQ(refused(plain("007")), "007; write it without leading zeros");
  EXPECT_EQ(refused(plain("+5")), "+5; write it without the sign");
  EXPECT_EQ(refused(plain("10k")), "'10k'; write the number alone, the unit is in the name of the key");
  EXPECT_EQ(refused(plain("9M")), "'9M'; write the number alone, the unit is in the name of the key");
  EXPECT_EQ(refused(plain("a9")), "'a9'");
  EXPECT_EQ(refused(quoted_doc("5")), "the text '5'; write it without quotes");
  EXPECT_EQ(refused(plain("1:30")), "'1:30'");
  EXPECT_EQ(refused(plain("1.0")), "1.0");
  EXPECT_EQ(refused(plain("1e3")), "1e3");
  EXPECT_EQ(refused(plain("-")), "'-'");
  EXPECT_EQ(refused(plain("true")), "true");
  EXPECT_EQ(refused(null_doc()), "nothing");
  EXPECT_EQ(refused(list_doc({})), "a list");
  EXPECT_EQ(refused(map_doc({})), "a map");
}

TEST(Validate, NumberAcceptsIntegersFractionsAndExponents) {
  const Schema schema = Schema::number(0, 1000);
  EXPECT_DOUBLE_EQ(accepted(schema, plain("0.25")).number(), 0.25);
  EXPECT_DOUBLE_EQ(accepted(schema, plain("7")).number(), 7);
  EXPECT_DOUBLE_EQ(accepted(schema, plain("1e-3")).number(), 0.001);
  EXPECT_EQ(mistakes(schema, plain("1000.5")), "x: expected a number from 0 to 1000, found 1000.5");
  for (const char* text : {".inf", ".nan", "-.inf", ".5", "5.", "1.5.2", "1e", "--1"}) {
    EXPECT_NE(mistakes(schema, plain(text)), "") << text;
  }
}

TEST(Validate, BooleanIsTrueOrFalseOnly) {
  EXPECT_TRUE(accepted(Schema::boolean(), plain("true")).boolean());
  EXPECT_FALSE(accepted(Schema::boolean(), plain("false")).boolean());
  EXPECT_EQ(mistakes(Schema::boolean(), plain("yes")), "x: expected true or false, found 'yes'; write true");
  EXPECT_EQ(mistakes(Schema::boolean(), plain("Off")), "x: expected true or false, found 'Off'; write false");
  EXPECT_EQ(mistakes(Schema::boolean(), plain("1")), "x: expected true or false, found 1; write true");
  EXPECT_EQ(mistakes(Schema::boolean(), quoted_doc("true")),
            "x: expected true or false, found the text 'true'; write true");
  EXPECT_EQ(mistakes(Schema::boolean(), plain("maybe")), "x: expected true or false, found 'maybe'");
}

TEST(Validate, StringIsTextThatIsNotEmpty) {
  EXPECT_EQ(accepted(Schema::string(), plain("veth-h1")).string(), "veth-h1");
  EXPECT_EQ(accepted(Schema::string(), quoted_doc("12")).string(), "12");
  EXPECT_EQ(accepted(Schema::text(), quoted_doc("")).string(), "");
  EXPECT_EQ(mistakes(Schema::string(), quoted_doc("")), "x: expected text, found the text ''");
  EXPECT_EQ(mistakes(Schema::string(), plain("12")), "x: expected text, found 12; write it in quotes");
  EXPECT_EQ(mistakes(Schema::string(), quoted_doc(std::string("a\0b", 3))), "x: expected text, found the text 'a?b'");
}

TEST(Validate, NameStartsWithALetterAndHasAtMost63Characters) {
  EXPECT_EQ(accepted(Schema::name(), plain("tor-1.A_z")).string(), "tor-1.A_z");
  EXPECT_EQ(accepted(Schema::name(), plain(std::string(63, 'a'))).string().size(), 63u);
  for (const auto& bad :
       {std::string(64, 'a'), std::string("1a"), std::string("a/b"), std::string("a b"), std::string("-a")}) {
    EXPECT_NE(mistakes(Schema::name(), plain(bad)), "") << bad;
  }
}

TEST(Validate, WordsAreTakenQuotedOrNotEvenWhenTheyLookLikeSomethingElse) {
  const Schema schema = Schema::one_of({"off", "on", "null", "true", "8"});
  for (const char* word : {"off", "on", "true", "8"}) {
    EXPECT_EQ(accepted(schema, plain(word)).string(), word);
    EXPECT_EQ(accepted(schema, quoted_doc(word)).string(), word);
  }
  Doc null = null_doc();
  null.text = "null";
  EXPECT_EQ(accepted(schema, null).string(), "null");
  EXPECT_EQ(mistakes(schema, null_doc()), "x: expected one of off, on, null, true, 8, found nothing");
}

TEST(Validate, MisspeltWordsGetASuggestion) {
  const Schema schema = Schema::one_of({"incremental", "full"});
  EXPECT_EQ(mistakes(schema, plain("incremantal")),
            "x: expected one of incremental, full, found 'incremantal'; did you mean 'incremental'?");
  EXPECT_EQ(mistakes(schema, plain("Full")),
            "x: expected one of incremental, full, found 'Full'; did you mean 'full'?");
  EXPECT_EQ(mistakes(schema, plain("sideways")), "x: expected one of incremental, full, found 'sideways'");
}

TEST(Validate, AddressesAreCheckedByTheirParsers) {
  EXPECT_EQ(accepted(Schema::mac(), plain("02:00:00:00:00:0A")).string(), "02:00:00:00:00:0A");
  EXPECT_EQ(mistakes(Schema::mac(), plain("02-00-00-00-00-0a")),
            "x: expected a MAC address such as 02:00:00:00:00:01, found '02-00-00-00-00-0a'");
  EXPECT_EQ(accepted(Schema::ip(), plain("fe80::1")).string(), "fe80::1");
  EXPECT_EQ(mistakes(Schema::ip(), plain("10.0.0.256")),
            "x: expected an IP address such as 10.0.0.1 or 2001:db8::1, found '10.0.0.256'");
  EXPECT_EQ(accepted(Schema::prefix(), plain("10.0.0.1/24")).string(), "10.0.0.1/24");
  EXPECT_EQ(mistakes(Schema::prefix(), plain("10.0.0.1")),
            "x: expected an address with a prefix length such as 10.0.0.1/24, found '10.0.0.1'; a single address is "
            "10.0.0.1/32");
  EXPECT_EQ(mistakes(Schema::prefix(), plain("10.0.0.1/33")),
            "x: expected an address with a prefix length such as 10.0.0.1/24, found '10.0.0.1/33'");
}

TEST(Validate, ListReportsEachWrongItemByItsIndex) {
  const Schema schema = Schema::list(Schema::integer(0, 9), 2);
  EXPECT_EQ(accepted(schema, list_doc({plain("1"), plain("2")})).list()[1].integer(), 2);
  EXPECT_EQ(mistakes(schema, list_doc({plain("1")})), "x: expected at least 2 items, found 1");
  EXPECT_EQ(mistakes(schema, list_doc({plain("a"), plain("1"), plain("10")})),
            "x[0]: expected an integer from 0 to 9, found 'a'|x[2]: expected an integer from 0 to 9, found 10");
  EXPECT_EQ(mistakes(schema, null_doc()), "x: expected a list, found nothing; an empty list is []");
}

TEST(Validate, MapFillsInDefaultsAndReportsWhatIsMissingOrUnknown) {
  const Value value = accepted(two_keys(), map_doc({{"rate_mbps", plain("3")}}));
  EXPECT_EQ(value["rate_mbps"].integer(), 3);
  EXPECT_EQ(value["delay_ns"].integer(), 7);
  EXPECT_EQ(value["delay_ns"].mark().line, 0);
  EXPECT_FALSE(value.has("other"));
  EXPECT_EQ(mistakes(two_keys(), map_doc({})), "x: missing key 'rate_mbps' (an integer from 0 to 9)");
  EXPECT_EQ(mistakes(two_keys(), map_doc({{"rate_mbs", plain("3")}})),
            "x: unknown key 'rate_mbs'; did you mean 'rate_mbps'?|x: missing key 'rate_mbps' (an integer from 0 to 9)");
  EXPECT_EQ(mistakes(two_keys(), map_doc({{"rate_mbps", plain("3")}, {"zzzzzz", plain("3")}})),
            "x: unknown key 'zzzzzz'; known: rate_mbps, delay_ns")
      << "those that are there are known as well";
  EXPECT_EQ(mistakes(two_keys(), map_doc({{"rate_mbps", plain("3")}, {"rate_mps", plain("3")}})),
            "x: unknown key 'rate_mps'; did you mean 'rate_mbps'?");
}

TEST(Validate, AWrongValueDoesNotHideOtherMistakesNorItsDefault) {
  Diagnostics diagnostics;
  const Value value =
      validate(two_keys(), map_doc({{"rate_mbps", plain("x")}, {"delay_ns", plain("y")}}), "x", nullptr, diagnostics);
  EXPECT_EQ(diagnostics.entries().size(), 2u);
  EXPECT_TRUE(value["rate_mbps"].is_null());
  EXPECT_EQ(value["delay_ns"].integer(), 7);
}

TEST(Validate, DefaultsOfAnAbsentMapAreFilledInToo) {
  const Schema outer = Schema::map(
      {Key::with_default("match", Schema::map({Key::with_default("every", Schema::integer(1, 9), Value(1), "Every.")}),
                         Value(Value::Map{}), "Match.")});
  EXPECT_EQ(accepted(outer, map_doc({}))["match"]["every"].integer(), 1);
}

TEST(Validate, TaggedMapIsCheckedAgainstTheAlternativeThatItsTagNames) {
  const Value value =
      accepted(shapes(), map_doc({{"name", plain("a")}, {"type", plain("veth")}, {"interface", plain("i")}}));
  EXPECT_EQ(value["type"].string(), "veth");
  EXPECT_EQ(value["interface"].string(), "i");
  EXPECT_EQ(mistakes(shapes(), map_doc({{"type", plain("veth")}, {"name", plain("a")}, {"size", plain("1")}})),
            "x: unknown key 'size'; known: name, interface, type|x: missing key 'interface' (text)");
}

TEST(Validate, TaggedMapWithoutAUsableTagIsStillCheckedForWhatAllAlternativesShare) {
  EXPECT_EQ(
      mistakes(shapes(), map_doc({{"name", plain("1")}, {"interface", plain("1")}})),
      "x: missing key 'type' (one of null, veth)|name: expected a name of a letter, then letters, digits, '_', '.', "
      "'-', at most 63 characters, found 1");
  EXPECT_EQ(mistakes(shapes(), map_doc({{"name", plain("a")}, {"type", plain("vet")}})),
            "type: expected one of null, veth, found 'vet'; did you mean 'veth'?");
}

TEST(Validate, EitherChoosesByKindAndReportsTheMistakesOfThatKind) {
  const Schema schema = Schema::either(Schema::integer(1, 9), Schema::list(Schema::integer(1, 9), 1));
  EXPECT_EQ(accepted(schema, plain("4")).integer(), 4);
  EXPECT_EQ(accepted(schema, list_doc({plain("4")})).list().size(), 1u);
  EXPECT_EQ(mistakes(schema, plain("10")), "x: expected an integer from 1 to 9, found 10");
  EXPECT_EQ(mistakes(schema, list_doc({plain("10")})), "x[0]: expected an integer from 1 to 9, found 10");
  EXPECT_EQ(mistakes(schema, plain("a")), "x: expected an integer from 1 to 9, or a list, found 'a'");
}

TEST(Validate, EitherTakesWholeAndBrokenNumbersForANumber) {
  const Schema schema = Schema::either(Schema::number(0, 1), Schema::map({}));
  EXPECT_DOUBLE_EQ(accepted(schema, plain("0.5")).number(), 0.5);
  EXPECT_DOUBLE_EQ(accepted(schema, plain("1")).number(), 1);
  EXPECT_EQ(mistakes(schema, plain("2")), "x: expected a number from 0 to 1, found 2");
}

TEST(Validate, EitherOfOneKindTakesTheFirstThatFits) {
  const Schema schema = Schema::either(Schema::ip(), Schema::one_of({"any"}));
  EXPECT_EQ(accepted(schema, plain("10.0.0.1")).string(), "10.0.0.1");
  EXPECT_EQ(accepted(schema, plain("any")).string(), "any");
  EXPECT_EQ(mistakes(schema, plain("none")),
            "x: expected an IP address such as 10.0.0.1 or 2001:db8::1, or 'any', found 'none'");
}

TEST(Validate, StagesAreNamesOrMapsOfOneNameAndGetTheirDefaults) {
  pipeline::Registry registry;
  registry.add({.name = "l2", .summary = "", .options = two_keys(), .make = {}});
  registry.add({.name = "parse", .summary = "", .options = Schema(), .make = {}});
  Diagnostics diagnostics;
  const Doc good = list_doc(
      {plain("parse"), map_doc({{"l2", map_doc({{"rate_mbps", plain("2")}})}}), map_doc({{"parse", null_doc()}})});
  const Value value = validate(Schema::stages(), good, "pipeline", &registry, diagnostics);
  ASSERT_EQ(diagnostics.to_string(), "");
  EXPECT_TRUE(value.list()[0]["parse"].map().empty());
  EXPECT_EQ(value.list()[1]["l2"]["delay_ns"].integer(), 7);

  const Doc bad = list_doc({plain("pars"), plain("5"), map_doc({}), map_doc({{"l2", plain("x")}}), plain("l2")});
  (void)validate(Schema::stages(), bad, "pipeline", &registry, diagnostics);
  std::string texts;
  for (const auto& entry : diagnostics.entries()) texts += entry.text + "\n";
  EXPECT_EQ(texts,
            "unknown stage 'pars'; did you mean 'parse'?\n"
            "pipeline: expected a stage, as 'name' or as 'name: {options}', found 5\n"
            "pipeline: expected a stage, as 'name' or as 'name: {options}', found a map of 0 keys\n"
            "l2: expected a map, found 'x'\n"
            "l2: missing key 'rate_mbps' (an integer from 0 to 9)\n");
}

}  // namespace
}  // namespace weft::config
