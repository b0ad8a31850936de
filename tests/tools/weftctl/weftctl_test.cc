// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The program weftctl, and its completion, against a service in this process.
#include <gmock/gmock.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "switch/api/service.h"
#include "switch/wire/opcodes.h"
#include "tests/support/temporary_directory.h"
#include "tests/switch/api/fake_backend.h"
#include "tests/switch/api/raw_listener.h"
#include "tests/tools/weftctl/program.h"

namespace weft::weftctl {
namespace {

using api::FakeBackend;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class WeftctlTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("WEFT_SOCKET");
    backend.add("ports", {{{"switch", "tor1"}, {"port", "h1"}, {"rx_packets", 1234567}},
                          {{"switch", "tor1"}, {"port", "h2"}, {"rx_packets", 8}}});
    backend.add("drops", FakeBackend::Rows::array());
    ASSERT_EQ(service.start(path, backend), std::nullopt);
  }

  // Runs weftctl with the socket of the service.
  int weftctl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {WEFTCTL, "--socket", path});
    return run(arguments);
  }

  int run(const std::vector<std::string>& arguments) { return Program(arguments).finish(out, err); }

  const api::TemporaryDirectory directory;
  const std::string path = directory.file("s");
  FakeBackend backend;
  api::Service service;
  std::string out;
  std::string err;
};

TEST_F(WeftctlTest, ShowPrintsATableWithoutTheOnlySwitch) {
  EXPECT_EQ(weftctl({"show", "ports"}), 0);
  EXPECT_EQ(out, "port  rx_packets\nh1       1234567\nh2             8\n");
  EXPECT_EQ(err, "");
}

TEST_F(WeftctlTest, ExplainPrintsTheTableOfItsTopicAndKnowsNoOther) {
  backend.add("headroom", {{{"switch", "tor1"}, {"port", "h1"}, {"group", 3}, {"headroom_size", 100}},
                           {{"switch", "tor1"}, {"port", "h2"}, {"group", 3}, {"headroom_size", 200}}});
  EXPECT_EQ(weftctl({"explain", "headroom", "--port", "h2"}), 0);
  EXPECT_EQ(out, "port  group  headroom_size\nh2        3            200\n");
  EXPECT_EQ(weftctl({"explain", "footroom"}), 2);
  EXPECT_THAT(err, HasSubstr("headroom"));
  EXPECT_EQ(weftctl({"explain", "--help"}), 0);
  EXPECT_THAT(out, HasSubstr("on_the_link"));
}

TEST_F(WeftctlTest, ShowNamesTheSwitchWhenThereAreSeveralOrWhenAsked) {
  const std::string named = "switch  port  rx_packets\ntor1    h1       1234567\ntor1    h2             8\n";
  EXPECT_EQ(weftctl({"show", "ports", "--switch-column"}), 0);
  EXPECT_EQ(out, named);
  backend.switches = {"tor1", "tor2"};
  EXPECT_EQ(weftctl({"show", "ports"}), 0);
  EXPECT_EQ(out, named);
  EXPECT_EQ(weftctl({"show", "ports", "--switch", "tor1"}), 0);
  EXPECT_EQ(out, "port  rx_packets\nh1       1234567\nh2             8\n");
}

TEST_F(WeftctlTest, ShowSaysThatATableIsEmpty) {
  EXPECT_EQ(weftctl({"show", "drops"}), 0);
  EXPECT_EQ(out, "no rows\n");
}

TEST_F(WeftctlTest, OptionsMayStandBehindTheTable) {
  EXPECT_EQ(run({WEFTCTL, "show", "ports", "--columns", "0", "-t", "--socket", path}), 0);
  EXPECT_EQ(out, "port  rx_packets\nh1     1,234,567\nh2             8\n");
}

nlohmann::ordered_json change(const std::string& to, const std::string& refused) {
  return {{"switch", "tor1"}, {"change", "changed"}, {"what", "port p1"}, {"key", "rate_mbps"}, {"from", 0},
          {"to", to},         {"refused", refused}};
}

TEST_F(WeftctlTest, DiffAsksForAnAbsolutePathAndPrintsTheChanges) {
  backend.changes.changes.push_back(change("7", ""));
  EXPECT_EQ(weftctl({"diff", "new.yaml"}), 0);
  EXPECT_EQ(out, "switch  change   what     key        from  to\ntor1    changed  port p1  rate_mbps     0  7\n");
  EXPECT_THAT(backend.asked_path, testing::AllOf(StartsWith("/"), EndsWith("/new.yaml")));
  EXPECT_EQ(err, "");
}

TEST_F(WeftctlTest, ReloadSaysWhenNothingChanges) {
  backend.changes.applied = true;
  EXPECT_EQ(weftctl({"reload"}), 0);
  EXPECT_EQ(out, "nothing changes\n");
}

TEST_F(WeftctlTest, ARefusedReloadPrintsEveryMistakeAndEndsWith1) {
  backend.changes.mistakes = {"/etc/weft.yaml:3:7: unknown key 'prt'", "/etc/weft.yaml:9:1: another"};
  backend.changes.notes = {"/etc/weft.yaml:2:2: note: surprising"};
  EXPECT_EQ(weftctl({"reload"}), 1);
  EXPECT_EQ(out, "");
  EXPECT_EQ(err,
            "/etc/weft.yaml:2:2: note: surprising\n/etc/weft.yaml:3:7: unknown key 'prt'\n/etc/weft.yaml:9:1: another\n"
            "weftctl: refused, nothing has changed\n");
  EXPECT_EQ(weftctl({"diff", "x"}), 1);
  EXPECT_THAT(err, EndsWith("weftctl: the running switch could not take this file\n"));
}

TEST_F(WeftctlTest, ChangesAsJsonSayEverything) {
  backend.changes.changes.push_back(change("7", "no"));
  backend.changes.mistakes = {"f:1:1: no"};
  EXPECT_EQ(weftctl({"--json", "reload"}), 1);
  EXPECT_EQ(out,
            R"({"changes":[{"switch":"tor1","change":"changed","what":"port p1","key":"rate_mbps","from":0,"to":"7",)"
            R"("refused":"no"}],"mistakes":["f:1:1: no"],"notes":[],"applied":false})"
            "\n");
}

TEST_F(WeftctlTest, JsonIsAnArrayOfTheRowsAsTheyCame) {
  EXPECT_EQ(weftctl({"show", "ports", "--json"}), 0);
  EXPECT_EQ(out,
            "[\n"
            R"({"switch":"tor1","port":"h1","rx_packets":1234567},)"
            "\n"
            R"({"switch":"tor1","port":"h2","rx_packets":8})"
            "\n]\n");
  EXPECT_EQ(weftctl({"show", "drops", "--json"}), 0);
  EXPECT_EQ(out, "[]\n");
}

TEST_F(WeftctlTest, MoreRowsThanAskedForAreMentionedOnStderr) {
  EXPECT_EQ(weftctl({"show", "ports", "--max-rows", "1"}), 0);
  EXPECT_EQ(out, "port  rx_packets\nh1       1234567\n");
  EXPECT_EQ(err, "weftctl: more rows exist than the 1 printed\n");
}

TEST_F(WeftctlTest, TablesAndAboutAreForPeopleAndForPrograms) {
  EXPECT_EQ(weftctl({"tables"}), 0);
  EXPECT_EQ(out, "name   summary\ndrops  The drops of a fake switch.\nports  The ports of a fake switch.\n");
  EXPECT_EQ(weftctl({"tables", "--json"}), 0);
  EXPECT_THAT(out, StartsWith(R"([{"name":"drops","summary":"The drops of a fake switch."},)"));
  EXPECT_EQ(weftctl({"about"}), 0);
  EXPECT_EQ(out, "version   0.1.0\npid       4711\nuptime_s  12\nworkers   1, 2\nswitches  tor1\n");
  EXPECT_EQ(weftctl({"--json", "about"}), 0);
  EXPECT_EQ(out, R"({"version":"0.1.0","pid":4711,"uptime_s":12,"workers":[1,2],"switches":["tor1"]})"
                 "\n");
}

TEST_F(WeftctlTest, AnUnknownTableExitsWith1AndAGuess) {
  EXPECT_EQ(weftctl({"show", "prots"}), 1);
  EXPECT_EQ(out, "");
  EXPECT_EQ(err, "weftctl: unknown table 'prots'; did you mean 'ports'? Tables: drops, ports.\n");
  EXPECT_EQ(weftctl({"show", "prots", "--json"}), 1);
  EXPECT_EQ(out, "") << "not the beginning of an array";
}

TEST_F(WeftctlTest, WrongUsageExitsWith2InOneLine) {
  const std::vector<std::vector<std::string>> wrong{{},
                                                    {"shw"},
                                                    {"show", "ports", "drops"},
                                                    {"show", "ports", "--max-rows", "many"},
                                                    {"show", "ports", "--max-rows", "-1"},
                                                    {"capture", "-w", "x", "--count", "-1"},
                                                    {"show", "route"},
                                                    {"show", "ports", "--watch", "0"},
                                                    {"show", "ports", "--watch", "2x"},
                                                    {"about", "--colums", "3"},
                                                    {"about", "--columns", "-1"}};
  for (const auto& arguments : wrong) {
    EXPECT_EQ(weftctl(arguments), 2) << testing::PrintToString(arguments);
    EXPECT_EQ(out, "");
    EXPECT_THAT(err, StartsWith("weftctl: "));
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  }
}

TEST_F(WeftctlTest, NoSwitchExitsWith3NamingTheSocketInOneLine) {
  const std::string absent = directory.file("absent");
  EXPECT_EQ(run({WEFTCTL, "--socket", absent, "about"}), 3);
  EXPECT_EQ(err, "weftctl: cannot reach " + absent + ": No such file or directory; is weft-switch running?\n");
  api::leave_stale_socket(directory.file("stale"));
  EXPECT_EQ(run({WEFTCTL, "--socket", directory.file("stale"), "about"}), 3);
  EXPECT_THAT(err, HasSubstr("nobody listens"));
  const int silent = api::listen_on(directory.file("silent"));
  EXPECT_EQ(run({WEFTCTL, "--socket", directory.file("silent"), "--timeout", "0.1", "about"}), 3);
  EXPECT_EQ(err, "weftctl: no answer on " + directory.file("silent") + " within 100 ms; is weft-switch running?\n");
  close(silent);
}

TEST_F(WeftctlTest, TheEnvironmentNamesTheSocketAndTheOptionWins) {
  setenv("WEFT_SOCKET", path.c_str(), 1);
  EXPECT_EQ(run({WEFTCTL, "about"}), 0);
  setenv("WEFT_SOCKET", directory.file("absent").c_str(), 1);
  EXPECT_EQ(run({WEFTCTL, "about"}), 3);
  EXPECT_EQ(weftctl({"about"}), 0);
  unsetenv("WEFT_SOCKET");
}

TEST_F(WeftctlTest, WatchPrintsAgainAndAgain) {
  Program watch({WEFTCTL, "--socket", path, "show", "ports", "--watch", "0.1"});
  EXPECT_TRUE(watch.read_until("port  rx_packets\n", 3));
}

TEST_F(WeftctlTest, WatchNeedsNoNumberAndMayPrecedeTheTable) {
  Program watch({WEFTCTL, "--socket", path, "show", "--watch", "ports"});
  EXPECT_TRUE(watch.read_until("port  rx_packets\n", 1));
}

TEST_F(WeftctlTest, WatchEndsWhenTheSwitchDoes) {
  Program watch({WEFTCTL, "--socket", path, "show", "ports", "--watch", "0.1"});
  ASSERT_TRUE(watch.read_until("port  rx_packets\n", 1));
  service.stop();
  EXPECT_EQ(watch.finish(out, err), 3);
  EXPECT_THAT(err, StartsWith("weftctl: "));
  EXPECT_THAT(err, EndsWith("; is weft-switch running?\n"));
}

TEST_F(WeftctlTest, AnOutputThatCannotBeWrittenIsAnError) {
  EXPECT_EQ(run({"/bin/sh", "-c", std::string(WEFTCTL) + " --socket " + path + " about > /dev/full"}), 1);
  EXPECT_EQ(err, "weftctl: cannot write the output: No space left on device\n");
}

TEST_F(WeftctlTest, HelpTeachesTheToolWithin120Columns) {
  EXPECT_EQ(run({WEFTCTL, "--help"}), 0);
  for (const char* word : {"about", "tables", "show TABLE", "--switch", "--max-rows", "--watch", "--json", "--socket",
                           "WEFT_SOCKET", "/run/weft/weft.sock", "Examples:", "Exit status:"}) {
    EXPECT_THAT(out, HasSubstr(word));
  }
  std::size_t start = 0;
  for (std::size_t end = out.find('\n'); end != std::string::npos; start = end + 1, end = out.find('\n', start)) {
    EXPECT_LE(end - start, 120U) << out.substr(start, end - start);
  }
  EXPECT_EQ(run({WEFTCTL, "--version"}), 0);
  EXPECT_EQ(out, "weftctl " WEFT_VERSION "\n");
}

TEST_F(WeftctlTest, ShowWithoutATableListsTheTables) {
  EXPECT_EQ(weftctl({"tables"}), 0);
  const std::string tables = out;
  EXPECT_EQ(weftctl({"show"}), 0);
  EXPECT_EQ(out, tables);
}

TEST_F(WeftctlTest, RowsAreChosenByPortAndByWhetherTheyCount) {
  backend.add("ports", {{{"switch", "tor1"}, {"port", "h1"}, {"rx_packets", 7}, {"mtu", 1500}},
                        {{"switch", "tor1"}, {"port", "h2"}, {"rx_packets", 0}, {"mtu", 1500}}});
  const std::string first = "port  rx_packets   mtu\nh1             7  1500\n";
  EXPECT_EQ(weftctl({"show", "ports", "--nonzero"}), 0);
  EXPECT_EQ(out, first);
  EXPECT_EQ(weftctl({"show", "ports", "--port", "tor1/h1"}), 0);
  EXPECT_EQ(out, first);
  EXPECT_EQ(weftctl({"show", "ports", "--port", "h3"}), 0);
  EXPECT_EQ(out, "no rows\n");
}

TEST_F(WeftctlTest, WithoutATerminalNothingIsShortened) {
  const std::string sentence(150, 'x');
  backend.add("drops", {{{"switch", "tor1"}, {"reason", "icrc"}, {"meaning", sentence}}});
  EXPECT_EQ(weftctl({"show", "drops"}), 0);
  EXPECT_THAT(out, HasSubstr(sentence));
}

TEST_F(WeftctlTest, DiffAndReloadHaveTheirOwnHelp) {
  EXPECT_EQ(run({WEFTCTL, "diff", "--help"}), 0);
  EXPECT_THAT(out, HasSubstr("weftctl diff new.yaml --json"));
  EXPECT_EQ(run({WEFTCTL, "reload", "--help"}), 0);
  EXPECT_THAT(out, HasSubstr("applies all of it, or nothing"));
  EXPECT_THAT(out, testing::Not(HasSubstr("WEFT_SOCKET  ")));
}

TEST_F(WeftctlTest, AWordThatIsNoCommandIsAStage) {
  EXPECT_EQ(weftctl({"xyzzy", "group", "id=5"}), 1);
  EXPECT_EQ(err, "weftctl: " + std::string(FakeBackend::kNothing) + "\n");
  EXPECT_EQ(weftctl({"command", "lb", "set", "policy=ecmp"}), 1);
  EXPECT_EQ(err, "weftctl: " + std::string(FakeBackend::kNothing) + "\n");
}

class CompletionTest : public WeftctlTest {
 protected:
  // Words that <Tab> offers behind the line, one space between each.
  std::string complete(const std::string& line) {
    const std::string script =
        std::string("source ") + COMPLETION + "; read -ra COMP_WORDS <<< '" + line + "'; [[ '" + line +
        "' == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_WORDS[0]=" + WEFTCTL +
        "; _weftctl; echo \"${COMPREPLY[*]}\"";
    setenv("WEFT_SOCKET", path.c_str(), 1);
    EXPECT_EQ(run({"/bin/bash", "-c", script}), 0);
    unsetenv("WEFT_SOCKET");
    EXPECT_EQ(err, "");
    return out.substr(0, out.find('\n'));
  }
};

TEST_F(CompletionTest, OffersCommands) {
  EXPECT_EQ(complete("weftctl "),
            "about capture clear command commands diff explain record reload set show tables trace");
  EXPECT_EQ(complete("weftctl --json ta"), "tables");
  EXPECT_EQ(complete("weftctl about "), "");
}

TEST_F(CompletionTest, OffersTheTablesOfTheSwitch) {
  EXPECT_EQ(complete("weftctl show "), "drops ports");
  EXPECT_EQ(complete("weftctl show p"), "ports");
  EXPECT_EQ(complete("weftctl show --watch 2 p"), "ports");
  EXPECT_EQ(complete("weftctl show ports "), "");
  EXPECT_EQ(complete("weftctl --socket " + directory.file("absent") + " show "), "");
}

TEST_F(CompletionTest, OffersTheSwitchesOfTheProcess) {
  backend.switches = {"tor1", "tor2", "spine1"};
  EXPECT_EQ(complete("weftctl show ports --switch "), "tor1 tor2 spine1");
  EXPECT_EQ(complete("weftctl show ports --switch t"), "tor1 tor2");
}

TEST_F(CompletionTest, OffersExactlyTheOptionsOfTheHelp) {
  EXPECT_EQ(run({WEFTCTL, "--help"}), 0);
  std::string help = out;
  std::string offered = complete("weftctl --");
  for (const std::string command : {"show", "capture", "trace", "record", "clear", "set"}) {
    EXPECT_EQ(run({WEFTCTL, command, "--help"}), 0);
    help += out;
    offered += " " + complete("weftctl " + command + " --");
  }
  for (std::size_t at = help.find("--"); at != std::string::npos; at = help.find("--", at + 2)) {
    const std::string option = help.substr(at, help.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at) - at);
    EXPECT_THAT(" " + offered + " ", HasSubstr(" " + option + " "));
  }
  EXPECT_THAT(complete("weftctl show --"), EndsWith("--switch --max-rows --watch --switch-column"));
  EXPECT_THAT(complete("weftctl trace --"), EndsWith(" --psn --duration-s --count"));
}

TEST_F(CompletionTest, OffersWhatBelongsBehindAnOption) {
  EXPECT_EQ(complete("weftctl capture -w x --port "), "h1 h2");
  EXPECT_EQ(complete("weftctl set "), "impair lb log-level nack_filter paths port");
  EXPECT_EQ(complete("weftctl set paths "), "exclude include");
  EXPECT_EQ(complete("weftctl set port "), "h1 h2");
  EXPECT_EQ(complete("weftctl set port h1 "), "link= rate_mbps= delay_ns=");
  EXPECT_EQ(complete("weftctl set port h1 link = d"), "down") << "three words to bash";
  EXPECT_EQ(complete("weftctl set impair lossy "), "on off");
  EXPECT_EQ(complete("weftctl set log-level d"), "debug");
  EXPECT_EQ(complete("weftctl clear dr"), "drops");
  EXPECT_EQ(complete("weftctl clear p"), "ports port_drops");
  EXPECT_EQ(complete("weftctl capture -w x --drop a"), "any");
}

TEST_F(CompletionTest, OffersEveryOpcodeByItsName) {
  std::string all;
  for (std::uint32_t raw = 0; raw < 256; ++raw) {
    const auto opcode = static_cast<std::uint8_t>(raw);
    if (wire::opcode_from_name(wire::opcode_name(opcode)))
      all += (all.empty() ? "" : " ") + std::string(wire::opcode_name(opcode));
  }
  EXPECT_EQ(complete("weftctl capture -w x --opcode "), all);
  EXPECT_EQ(complete("weftctl trace --opcode RC_ACK"), "RC_ACKNOWLEDGE");
}

TEST_F(CompletionTest, OffersWhatTheStagesOfTheSwitchCanDo) {
  const auto properties = [](const char* json) {
    return nlohmann::ordered_json{{"type", "object"}, {"properties", nlohmann::ordered_json::parse(json)}};
  };
  backend.stage_commands = {
      {"inc", "create", "Makes a group.", properties(R"({"group":{"type":"string"}})")},
      {"inc", "show", "Lists groups.", properties(R"({"what":{"type":"string","enum":["groups","slots"]}})")},
      {"lb", "policy", "Takes another.",
       properties(R"({"policy":{"default":"ecmp","description":"Which.","enum":["ecmp","psn"]}})")}};
  EXPECT_THAT(complete("weftctl "), EndsWith(" trace inc lb"));
  EXPECT_EQ(complete("weftctl inc "), "create show");
  EXPECT_EQ(complete("weftctl command "), "inc lb");
  EXPECT_EQ(complete("weftctl command inc s"), "show");
  EXPECT_EQ(complete("weftctl command inc show "), "what=");
  EXPECT_EQ(complete("weftctl inc show "), "what=");
  EXPECT_EQ(complete("weftctl inc show what ="), "groups slots");
  EXPECT_EQ(complete("weftctl set lb policy ="), "ecmp psn");
  EXPECT_EQ(complete("weftctl set lb policy = p"), "psn");
}

}  // namespace
}  // namespace weft::weftctl
