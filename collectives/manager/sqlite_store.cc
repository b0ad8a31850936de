// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/sqlite_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>

namespace weft::inc::manager {
namespace {

constexpr int kVersion = 1;
/// "weft" as number: `file` and SQLite tell our files by it.
constexpr const char* kApplication = "2003134068";
/// Pages of 4 KiB in the log after which SQLite copies it into the file, and waits for the disk twice, while no call of
/// the manager goes on. With a hundred groups a second its own 1000 come about each second. The next start reads the
/// log: 32 MiB take a tenth of a second.
constexpr const char* kLogPages = "8000";

}  // namespace

struct SqliteStore::Impl {
  /// A statement, which ends with its block.
  class Statement {
   public:
    Statement(sqlite3* db, const char* sql) { sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr); }
    ~Statement() { sqlite3_finalize(statement_); }
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;
    void bind(int at, std::uint64_t value) { sqlite3_bind_int64(statement_, at, static_cast<sqlite3_int64>(value)); }
    void bind(int at, const std::string& value) {
      sqlite3_bind_text(statement_, at, value.data(), static_cast<int>(value.size()), SQLITE_STATIC);
    }
    /// SQLITE_ROW, SQLITE_DONE or an error; of a statement that could not be prepared, too.
    int step() { return statement_ == nullptr ? SQLITE_ERROR : sqlite3_step(statement_); }
    /// One without rows, which may be run again. The reason of a failure is the database's.
    bool run() {
      const bool done = step() == SQLITE_DONE;
      sqlite3_reset(statement_);
      return done;
    }
    [[nodiscard]] std::uint64_t number(int column) const {
      return static_cast<std::uint64_t>(sqlite3_column_int64(statement_, column));
    }
    [[nodiscard]] std::string text(int column) const {
      const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
      return bytes == nullptr ? ""
                              : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
    }

   private:
    sqlite3_stmt* statement_ = nullptr;
  };

  /// What is written with each group: SQLite takes longer to read a statement than to run it.
  struct Writes {
    explicit Writes(sqlite3* db)
        : begin(db, "BEGIN IMMEDIATE"),
          put(db, "INSERT OR REPLACE INTO groups VALUES (?, ?)"),
          put_last(db, "UPDATE last SET generation = max(generation, ?) WHERE one = 1"),
          erase(db, "DELETE FROM groups WHERE id = ?"),
          commit(db, "COMMIT") {}
    Statement begin, put, put_last, erase, commit;
  };

  ~Impl() {
    writes.reset();
    if (log >= 0) close(log);
    sqlite3_close(db);
  }

  bool run(const std::string& sql) { return sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK; }
  [[nodiscard]] std::string why(const std::string& what) const {
    return "cannot " + what + " " + path + ": " + (db == nullptr ? "out of memory" : sqlite3_errmsg(db));
  }
  std::optional<std::uint64_t> number(const char* sql) {
    Statement s(db, sql);
    return s.step() == SQLITE_ROW ? std::optional(s.number(0)) : std::nullopt;
  }
  /// All of it, or nothing and why.
  template <class Body>
  std::optional<std::string> transaction(Body&& body) {
    if (!writes->begin.run()) return why("write");
    if (body() && writes->commit.run()) {
      const std::lock_guard lock(mutex);
      ++written;
      return std::nullopt;
    }
    std::string error = why("write");
    run("ROLLBACK");
    return error;
  }

  std::string path;
  sqlite3* db = nullptr;
  std::optional<Writes> writes;
  int log = -1;  ///< SQLite's write-ahead log
  std::mutex mutex;
  std::condition_variable synced;
  std::uint64_t written = 0, durable = 0;  ///< transactions
  bool syncing = false;
};

SqliteStore::SqliteStore() = default;
SqliteStore::~SqliteStore() = default;

std::optional<std::string> SqliteStore::open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
  if (sqlite3_open_v2(path.c_str(), &impl->db, kFlags, nullptr) != SQLITE_OK) return impl->why("open");
  // The lock is taken with the first write and kept: a log of one process needs no memory to be shared. SQLite brings
  // it to the disk before it copies it into the file, and sync() does so in between.
  if (!impl->run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = NORMAL; PRAGMA journal_mode = WAL") ||
      !impl->run(std::string("PRAGMA wal_autocheckpoint = ") + kLogPages) || !impl->run("BEGIN EXCLUSIVE")) {
    return sqlite3_errcode(impl->db) == SQLITE_BUSY ? path + " is in use by another process" : impl->why("open");
  }
  const auto version = impl->number("PRAGMA user_version").value_or(0);
  const auto tables = impl->number("SELECT count(*) FROM sqlite_master").value_or(0);
  if (version > kVersion) return path + " was written by a newer version";
  if (version == 0 && tables > 0) return path + " is a database of something else";
  const bool made =
      version == kVersion ||
      impl->run(std::string("PRAGMA application_id = ") + kApplication +
                "; PRAGMA user_version = " + std::to_string(kVersion) +
                "; CREATE TABLE groups (id INTEGER PRIMARY KEY, record TEXT NOT NULL);"
                "CREATE TABLE last (one INTEGER PRIMARY KEY CHECK (one = 1), generation INTEGER NOT NULL);"
                "INSERT INTO last VALUES (1, 0)");
  // Earlier versions look at the other tables only.
  const bool links =
      impl->run("CREATE TABLE IF NOT EXISTS links (one INTEGER PRIMARY KEY CHECK (one = 1), found TEXT)");
  if (!made || !links || !impl->run("COMMIT")) return impl->why("open");
  impl->writes.emplace(impl->db);
  impl->log = ::open((path + "-wal").c_str(), O_RDONLY | O_CLOEXEC);
  if (impl->log < 0) return "cannot open the log of " + path + ": " + std::generic_category().message(errno);
  impl_ = std::move(impl);
  return std::nullopt;
}

std::optional<std::string> SqliteStore::put(GroupId group, std::uint64_t generation, const std::string& record) {
  return impl_->transaction([&] {
    Impl::Writes& w = *impl_->writes;
    w.put.bind(1, group);
    w.put.bind(2, record);
    w.put_last.bind(1, generation);
    return w.put.run() && w.put_last.run();
  });
}

std::optional<std::string> SqliteStore::erase(GroupId group) {
  return impl_->transaction([&] {
    impl_->writes->erase.bind(1, group);
    return impl_->writes->erase.run();
  });
}

std::optional<std::string> SqliteStore::put_links(const std::string& text) {
  return impl_->transaction([&] {
    Impl::Statement s(impl_->db, "INSERT OR REPLACE INTO links VALUES (1, ?)");
    s.bind(1, text);
    return s.step() == SQLITE_DONE;
  });
}

std::optional<std::string> SqliteStore::load(Content& content) {
  content = {};
  const auto last = impl_->number("SELECT generation FROM last");
  if (!last) return impl_->why("read");
  content.last_generation = *last;
  if (Impl::Statement links(impl_->db, "SELECT found FROM links"); links.step() == SQLITE_ROW)
    content.links = links.text(0);
  Impl::Statement s(impl_->db, "SELECT record FROM groups ORDER BY id");
  int result = s.step();
  for (; result == SQLITE_ROW; result = s.step()) content.records.push_back(s.text(0));
  return result == SQLITE_DONE ? std::nullopt : std::optional(impl_->why("read"));
}

std::optional<std::string> SqliteStore::sync() {
  Impl& i = *impl_;
  std::unique_lock lock(i.mutex);
  for (const std::uint64_t wanted = i.written; i.durable < wanted;) {
    if (i.syncing) {
      i.synced.wait(lock);
      continue;
    }
    // For all that have been written so far, whoever waits for them.
    i.syncing = true;
    const std::uint64_t up_to = i.written;
    lock.unlock();
    const int error = fdatasync(i.log) == 0 ? 0 : errno;
    lock.lock();
    i.syncing = false;
    if (error == 0) i.durable = std::max(i.durable, up_to);
    i.synced.notify_all();
    if (error != 0) return "cannot write " + i.path + ": " + std::generic_category().message(error);
  }
  return std::nullopt;
}

}  // namespace weft::inc::manager
