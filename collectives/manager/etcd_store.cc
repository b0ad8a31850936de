// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "collectives/manager/etcd_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "collectives/manager/etcd.pb.h"
#include "collectives/manager/etcd_replies.h"

namespace weft::inc::manager {
namespace {

/// Of a transaction: etcd takes 128 operations and 1.5 MiB, if it is not told otherwise.
constexpr std::size_t kMaxWrites = 100, kMaxBytes = 512 * 1024;
constexpr std::chrono::milliseconds kAgain{200};
constexpr const char* kLost = "another manager may lead: this one has not reached etcd within its lease";

void write(etcdserverpb::RequestOp& op, const std::string& key, const std::string& value, std::int64_t lease = 0) {
  auto& request = *op.mutable_request_put();
  request.set_key(key);
  request.set_value(value);
  request.set_lease(lease);
}

/// All keys that begin with `prefix`, which ends with '/'.
void read_below(etcdserverpb::RequestOp& op, const std::string& prefix) {
  auto& request = *op.mutable_request_range();
  request.set_key(prefix);
  std::string end = prefix;
  end.back() = '/' + 1;
  request.set_range_end(end);
}

}  // namespace

std::string EtcdStore::group_key(GroupId group) const {
  const std::string digits = std::to_string(group);
  return key("groups/" + std::string(10 - std::min<std::size_t>(10, digits.size()), '0') + digits);
}

std::optional<std::string> EtcdStore::open(const EtcdPlace& place, const std::string& name) {
  place_ = place;
  name_ = name;
  return client_.open(place);
}

EtcdStore::~EtcdStore() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (writer_.joinable()) writer_.join();
  if (keeper_.joinable()) keeper_.join();
  if (lease_ != 0) static_cast<void>(client_.revoke(lease_));
}

std::optional<std::string> EtcdStore::try_to_lead() {
  etcdserverpb::RangeRequest question;
  question.set_key(key("leader"));
  etcdserverpb::RangeResponse answer;
  if (auto error = client_.range(question, answer)) return error;
  if (answer.kvs_size() != 0) return answer.kvs(0).value() + " leads";
  const auto begun = Clock::now();
  std::int64_t lease = 0;
  if (auto error = client_.grant(place_.lease_s, lease)) return error;
  etcdserverpb::TxnRequest wanted;
  auto& nobody = *wanted.add_compare();
  nobody.set_target(etcdserverpb::Compare::CREATE);
  nobody.set_key(question.key());
  nobody.set_create_revision(0);
  write(*wanted.add_success(), question.key(), name_, lease);
  etcdserverpb::TxnResponse made;
  auto error = client_.txn(wanted, made);
  if (!error && made.succeeded()) {
    lease_ = lease;
    leading_since_ = made.header().revision();
    const std::lock_guard lock(mutex_);
    leads_until_ = begun + std::chrono::seconds(place_.lease_s);
    leading_ = true;
    return std::nullopt;
  }
  static_cast<void>(client_.revoke(lease));
  return error ? error : "another manager was faster";
}

std::optional<std::string> EtcdStore::lead(const std::function<void(const std::string&)>& say,
                                           const std::function<bool()>& stop, std::function<void()> lost) {
  lost_ = std::move(lost);
  std::string said;
  while (!stop()) {
    auto waits_for = try_to_lead();
    if (!waits_for) {
      keeper_ = std::thread([this] { keep_lease(); });
      if (auto error = check_version()) return error;
      writer_ = std::thread([this] { write_all(); });
      return std::nullopt;
    }
    if (*waits_for != said) say(said = *waits_for);
    std::this_thread::sleep_for(kAgain);
  }
  return std::nullopt;
}

bool EtcdStore::leads() const {
  const std::lock_guard lock(mutex_);
  return leading_ && Clock::now() < leads_until_;
}

etcdserverpb::TxnRequest EtcdStore::transaction() const {
  etcdserverpb::TxnRequest out;
  auto& leads = *out.add_compare();
  leads.set_target(etcdserverpb::Compare::CREATE);
  leads.set_key(key("leader"));
  leads.set_create_revision(leading_since_);
  return out;
}

std::optional<std::string> EtcdStore::check_version() {
  etcdserverpb::TxnRequest request;
  auto& fresh = *request.add_compare();
  fresh.set_target(etcdserverpb::Compare::VERSION);
  fresh.set_key(key("version"));
  fresh.set_version(0);
  write(*request.add_success(), key("version"), kEtcdVersion);
  request.add_failure()->mutable_request_range()->set_key(key("version"));
  etcdserverpb::TxnResponse reply;
  if (auto error = client_.txn(request, reply)) return error;
  return reply.succeeded() ? std::nullopt : etcd_version_mistake(reply, place_.prefix);
}

void EtcdStore::add(Write write) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(write));
    ++added_;
  }
  changed_.notify_all();
}

std::optional<std::string> EtcdStore::put(GroupId group, std::uint64_t generation, const std::string& record) {
  if (!leads()) return kLost;
  add({group_key(group), record, generation});
  return std::nullopt;
}

std::optional<std::string> EtcdStore::erase(GroupId group) {
  if (!leads()) return kLost;
  add({group_key(group), std::nullopt, 0});
  return std::nullopt;
}

std::optional<std::string> EtcdStore::put_links(const std::string& text) {
  if (!leads()) return kLost;
  add({key("links"), text, 0});
  return std::nullopt;
}

std::optional<std::string> EtcdStore::load(Content& content) {
  etcdserverpb::TxnRequest request = transaction();
  request.add_success()->mutable_request_range()->set_key(key("generation"));
  request.add_success()->mutable_request_range()->set_key(key("links"));
  read_below(*request.add_success(), key("groups/"));
  etcdserverpb::TxnResponse reply;
  if (auto error = client_.txn(request, reply)) return error;
  if (!reply.succeeded()) return kLost;
  if (auto error = read_etcd_content(reply, place_.prefix, content)) return error;
  const std::lock_guard lock(mutex_);
  last_generation_ = content.last_generation;
  return std::nullopt;
}

std::optional<std::string> EtcdStore::send(std::size_t& sent) {
  etcdserverpb::TxnRequest request = transaction();
  std::set<std::string> keys;
  std::uint64_t generation = 0;
  sent = 0;
  {
    const std::lock_guard lock(mutex_);
    generation = last_generation_;
    for (std::size_t bytes = 0; const Write& w : waiting_) {
      bytes += w.key.size() + (w.value ? w.value->size() : 0);
      // A transaction has each key once.
      if (sent == kMaxWrites || (sent != 0 && bytes > kMaxBytes) || !keys.insert(w.key).second) break;
      auto& op = *request.add_success();
      w.value ? write(op, w.key, *w.value) : op.mutable_request_delete_range()->set_key(w.key);
      generation = std::max(generation, w.generation);
      ++sent;
    }
    if (generation > last_generation_) {
      write(*request.add_success(), key("generation"), std::to_string(generation));
    }
  }
  etcdserverpb::TxnResponse reply;
  if (auto error = client_.txn(request, reply)) return error;
  if (!reply.succeeded()) {
    lose();
    return kLost;
  }
  const std::lock_guard lock(mutex_);
  last_generation_ = generation;
  return std::nullopt;
}

void EtcdStore::write_all() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty() || !leading_) {
      if (stop_) return;
      // Nothing is written without the lead: the process is about to end.
      changed_.wait(lock, [&] { return stop_; });
      return;
    }
    const std::uint64_t number = ++tries_;
    lock.unlock();
    std::size_t sent = 0;
    auto error = send(sent);
    lock.lock();
    if (error) {
      failed_ = number;
      error_ = std::move(*error);
      changed_.notify_all();
      if (stop_) return;
      changed_.wait_for(lock, kAgain, [&] { return stop_; });
      continue;
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(sent));
    written_ += sent;
    changed_.notify_all();
  }
}

std::optional<std::string> EtcdStore::sync() {
  std::unique_lock lock(mutex_);
  const std::uint64_t wanted = added_, before = tries_;
  changed_.wait(lock, [&] { return written_ >= wanted || failed_ > before || !leading_ || stop_; });
  if (written_ >= wanted) return std::nullopt;
  return leading_ ? error_ : kLost;
}

void EtcdStore::lose() {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(leading_, false)) return;
  }
  changed_.notify_all();
  if (lost_) lost_();
}

void EtcdStore::keep_lease() {
  const auto pause = std::chrono::milliseconds(1000 * place_.lease_s / 3);
  std::unique_lock lock(mutex_);
  for (auto next = pause; leading_ && !changed_.wait_for(lock, next, [&] { return stop_ || !leading_; });) {
    lock.unlock();
    const auto begun = Clock::now();
    std::int64_t left = 0;
    const bool answered = !client_.keep_alive(lease_, left);
    lock.lock();
    if (answered && left > 0) leads_until_ = begun + std::chrono::seconds(std::min<std::int64_t>(left, place_.lease_s));
    if ((answered && left <= 0) || Clock::now() >= leads_until_) {
      lock.unlock();
      return lose();
    }
    next = answered ? pause : kAgain;
  }
}

std::vector<Outcome> AgentsOfLeader::install(std::span<const InstallOrder> orders) {
  if (store_.leads()) return agents_.install(orders);
  return std::vector<Outcome>(orders.size(), {Outcome::Kind::not_asked, kLost});
}

std::vector<Outcome> AgentsOfLeader::remove(std::span<const RemoveOrder> orders) {
  if (store_.leads()) return agents_.remove(orders);
  return std::vector<Outcome>(orders.size(), {Outcome::Kind::unknown, kLost});
}

}  // namespace weft::inc::manager
