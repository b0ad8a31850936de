// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
//
// The files of one side of a TLS connection in which both sides show certificates.
#pragma once

#include <string>
#include <vector>

namespace weft::config {

/// Paths of PEM files.
struct TlsFiles {
  std::string certificate;  ///< own certificate, then those between it and the authority, if any
  std::string key;          ///< its private key, without passphrase
  std::string authority;    ///< certificates of the authorities that sign the other side's certificates
};

/// What they hold.
struct TlsTexts {
  std::string certificate, key, authority;
};

/// What is wrong with one of the files.
struct TlsMistake {
  enum class File { certificate, key, authority };
  File file;
  std::string text;  ///< a sentence that names the path
};

/// Reads the files and checks that they are complete: certificates, and a key that belongs to the first of them. Reads
/// regular files only, at most 1 MiB each. `texts` is whole when nothing is wrong.
[[nodiscard]] std::vector<TlsMistake> read_tls_files(const TlsFiles& files, TlsTexts& texts);

}  // namespace weft::config
