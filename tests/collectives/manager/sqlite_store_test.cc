// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/sqlite_store.h"

#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace weft::inc::manager {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SqliteStoreTest : public testing::Test {
 protected:
  Store::Content content() {
    Store::Content out;
    EXPECT_EQ(store->load(out), std::nullopt);
    return out;
  }
  void open() {
    store.reset();  // only one at a time
    store = std::make_unique<SqliteStore>();
    ASSERT_EQ(store->open(path), std::nullopt);
  }
  void SetUp() override { open(); }

  api::TemporaryDirectory directory;
  std::string path = directory.file("inc.db");
  std::unique_ptr<SqliteStore> store;
};

TEST_F(SqliteStoreTest, LinksAreTheLastOnesThatWereWritten) {
  EXPECT_EQ(content().links, "");
  for (const char* text : {"[1]", "[2]"}) EXPECT_EQ(store->put_links(text), std::nullopt);
  open();
  EXPECT_EQ(content().links, "[2]");
}

TEST_F(SqliteStoreTest, WhatIsWrittenOutlivesTheProcess) {
  EXPECT_TRUE(content().records.empty());
  EXPECT_EQ(content().last_generation, 0u);
  EXPECT_EQ(store->put(7, 1, "seven"), std::nullopt);
  EXPECT_EQ(store->put(3, 2, "three"), std::nullopt);
  EXPECT_EQ(store->put(7, 1, "seven, later"), std::nullopt);
  open();
  EXPECT_THAT(content().records, ElementsAre("three", "seven, later"));
  EXPECT_EQ(content().last_generation, 2u) << "the highest";
  EXPECT_EQ(store->erase(3), std::nullopt);
  EXPECT_EQ(store->erase(3), std::nullopt);
  open();
  EXPECT_THAT(content().records, ElementsAre("seven, later"));
  EXPECT_EQ(content().last_generation, 2u);
}

TEST_F(SqliteStoreTest, SeveralThreadsWaitForTheDisk) {
  EXPECT_EQ(store->sync(), std::nullopt) << "nothing to do";
  std::vector<std::thread> threads;
  std::mutex one_at_a_time;
  for (GroupId t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 1; i <= 5; ++i) {
        {
          const std::lock_guard lock(one_at_a_time);
          EXPECT_EQ(store->put(t, i, std::to_string(t)), std::nullopt);
        }
        EXPECT_EQ(store->sync(), std::nullopt);
      }
    });
  }
  for (auto& t : threads) t.join();
  open();
  EXPECT_THAT(content().records, ElementsAre("1", "2", "3", "4"));
}

TEST_F(SqliteStoreTest, AProcessThatIsKilledHasWrittenAll) {
  store.reset();
  // A fork has what its parent had, and the parent has closed the file.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    SqliteStore other;
    const bool done = !other.open(path) && !other.put(5, 9, "five") && !other.sync();
    _exit(done ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  open();
  EXPECT_THAT(content().records, ElementsAre("five"));
  EXPECT_EQ(content().last_generation, 9u);
}

std::set<std::string> statements_run;

int note_statements(sqlite3* db, char**, const sqlite3_api_routines*) {
  const auto note = [](unsigned, void*, void* statement, void*) {
    statements_run.insert(sqlite3_sql(static_cast<sqlite3_stmt*>(statement)));
    return 0;
  };
  return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, note, nullptr);
}

TEST_F(SqliteStoreTest, WhatIsWrittenWithEachGroupScansNoTable) {
  const auto extension = reinterpret_cast<void (*)()>(note_statements);
  ASSERT_EQ(sqlite3_auto_extension(extension), SQLITE_OK);
  open();
  sqlite3_cancel_auto_extension(extension);
  statements_run.clear();
  ASSERT_EQ(store->put(7, 1, "installing"), std::nullopt);
  ASSERT_EQ(store->put(7, 1, "running"), std::nullopt);
  ASSERT_EQ(store->erase(7), std::nullopt);
  store.reset();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  std::vector<std::string> steps;
  for (const auto& sql : statements_run) {
    sqlite3_stmt* plan = nullptr;
    ASSERT_EQ(sqlite3_prepare_v2(db, ("EXPLAIN QUERY PLAN " + sql).c_str(), -1, &plan, nullptr), SQLITE_OK) << sql;
    while (sqlite3_step(plan) == SQLITE_ROW) {
      steps.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(plan, 3)));
    }
    sqlite3_finalize(plan);
  }
  sqlite3_close(db);
  EXPECT_THAT(statements_run, testing::SizeIs(5)) << "begin, put, the last generation, erase, commit";
  EXPECT_THAT(steps, testing::SizeIs(2));
  EXPECT_THAT(steps, testing::Each(HasSubstr("SEARCH")));
}

TEST_F(SqliteStoreTest, TheLogIsCopiedIntoTheFileNowAndThen) {
  const auto log = [&] { return std::filesystem::file_size(path + "-wal") >> 20; };
  const std::string megabyte(1 << 20, 'x');
  for (std::uint64_t i = 1; i <= 10; ++i) ASSERT_EQ(store->put(7, i, megabyte), std::nullopt);
  EXPECT_GE(log(), 10u) << "each time costs two waits for the disk";
  EXPECT_LT(std::filesystem::file_size(path), 1u << 20);
  for (std::uint64_t i = 11; i <= 80; ++i) ASSERT_EQ(store->put(7, i, megabyte), std::nullopt);
  EXPECT_LE(log(), 40u) << "it begins anew";
  EXPECT_GT(std::filesystem::file_size(path), 1u << 20);
  open();
  EXPECT_THAT(content().records, ElementsAre(megabyte));
  EXPECT_EQ(content().last_generation, 80u);
}

TEST_F(SqliteStoreTest, OneProcessHasIt) {
  EXPECT_THAT(SqliteStore().open(path).value_or(""), HasSubstr("in use"));
  EXPECT_EQ(store->put(1, 1, "x"), std::nullopt);
  EXPECT_THAT(SqliteStore().open(path).value_or(""), HasSubstr("in use"));
  store.reset();
  EXPECT_EQ(SqliteStore().open(path), std::nullopt);
}

TEST_F(SqliteStoreTest, OtherFilesStayAsTheyAre) {
  EXPECT_THAT(SqliteStore().open(directory.file("no/such/folder")).value_or(""), HasSubstr("no/such/folder"));
  const std::string text = directory.file("text");
  std::ofstream(text) << std::string(5000, 'x');
  EXPECT_THAT(SqliteStore().open(text).value_or(""), HasSubstr("not a database"));
  EXPECT_EQ(std::filesystem::file_size(text), 5000u);
}

TEST_F(SqliteStoreTest, AFullDiskIsAnErrorAndNothingIsHalfWritten) {
  ASSERT_EQ(store->put(1, 1, "small"), std::nullopt);
  // As far as the process may tell, the disk ends here.
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  rlimit small = old;
  small.rlim_cur = std::filesystem::file_size(path) + 8192;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto error = store->put(2, 2, std::string(1 << 20, 'x'));
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  EXPECT_THAT(error.value_or(""), HasSubstr(path));
  EXPECT_THAT(content().records, ElementsAre("small"));
  EXPECT_EQ(content().last_generation, 1u);
  EXPECT_EQ(store->put(2, 2, "fits"), std::nullopt) << "there is room again";
  open();
  EXPECT_THAT(content().records, ElementsAre("small", "fits"));
}

}  // namespace
}  // namespace weft::inc::manager
