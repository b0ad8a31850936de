// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/config/tls_files.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>

namespace weft::config {
namespace {

using File = TlsMistake::File;

constexpr off_t kMaxBytes = 1 << 20;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;

// Returns what is wrong, or "".
std::string read_regular_file(const std::string& path, std::string& text) {
  // A pipe or a device must not make whoever checks a configuration wait.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "cannot read " + path + ": " + std::generic_category().message(errno);
  struct stat status {};
  std::string wrong;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    wrong = path + " is not a regular file";
  } else if (status.st_size > kMaxBytes) {
    wrong = path + " is larger than 1 MiB";
  } else {
    text.resize(static_cast<std::size_t>(status.st_size));
    const ssize_t got = text.empty() ? 0 : read(fd, text.data(), text.size());
    if (got != status.st_size) wrong = "cannot read " + path + " to its end";
  }
  close(fd);
  return wrong;
}

Bio source(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// There is nobody to ask for a passphrase.
int no_passphrase(char*, int, int, void*) {
  return -1;
}

Certificate first_certificate(const std::string& text) {
  const Bio bio = source(text);
  return Certificate(PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr));
}

Key private_key(const std::string& text) {
  const Bio bio = source(text);
  return Key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
}

}  // namespace

std::vector<TlsMistake> read_tls_files(const TlsFiles& files, TlsTexts& texts) {
  std::vector<TlsMistake> mistakes;
  const auto add = [&](File file, std::string text) { mistakes.push_back({file, std::move(text)}); };
  const auto read_one = [&](File file, const std::string& path, std::string& text) {
    std::string wrong = read_regular_file(path, text);
    if (wrong.empty()) return true;
    add(file, std::move(wrong));
    return false;
  };
  Certificate certificate;
  if (read_one(File::certificate, files.certificate, texts.certificate)) {
    certificate = first_certificate(texts.certificate);
    if (!certificate) add(File::certificate, files.certificate + " holds no certificate in PEM");
  }
  if (read_one(File::key, files.key, texts.key)) {
    const Key key = private_key(texts.key);
    if (!key) {
      add(File::key, files.key + " holds no private key in PEM without a passphrase");
    } else if (certificate && X509_check_private_key(certificate.get(), key.get()) != 1) {
      add(File::key, files.key + " is not the key of " + files.certificate);
    }
  }
  if (read_one(File::authority, files.authority, texts.authority) && !first_certificate(texts.authority)) {
    add(File::authority, files.authority + " holds no certificate in PEM");
  }
  ERR_clear_error();
  return mistakes;
}

}  // namespace weft::config
