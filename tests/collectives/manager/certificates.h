// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// An authority and certificates that it signs, made with openssl, valid for a day.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "switch/config/tls_files.h"
#include "tests/support/temporary_directory.h"

namespace weft::inc::manager {

class Authority {
 public:
  Authority() {
    openssl("req -x509 " + std::string(kKey) + " -subj /CN=authority -addext keyUsage=critical,keyCertSign -keyout " +
            path("ca.key") + " -out " + path("ca.crt"));
  }

  /// A certificate with a common name and the alternative name 127.0.0.1.
  [[nodiscard]] config::TlsFiles sign(const std::string& name) {
    openssl("req " + std::string(kKey) + " -subj /CN=" + name + " -addext subjectAltName=IP:127.0.0.1 -keyout " +
            path(name + ".key") + " -out " + path(name + ".csr"));
    openssl("x509 -req -copy_extensions copyall -days 1 -in " + path(name + ".csr") + " -CA " + path("ca.crt") +
            " -CAkey " + path("ca.key") + " -CAcreateserial -out " + path(name + ".crt"));
    return {path(name + ".crt"), path(name + ".key"), path("ca.crt")};
  }

 private:
  static constexpr const char* kKey = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

  [[nodiscard]] std::string path(const std::string& name) const { return directory_.file(name); }
  static void openssl(const std::string& arguments) {
    EXPECT_EQ(std::system(("openssl " + arguments + " >/dev/null 2>&1").c_str()), 0) << arguments;
  }

  api::TemporaryDirectory directory_;
};

}  // namespace weft::inc::manager
