// SPDX-License-Identifier: Apache-2.0
// Copyright The weft authors
#include "switch/api/channel.h"

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

namespace weft::api {
namespace {

grpc::ChannelArguments any_size() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return arguments;
}

}  // namespace

std::shared_ptr<grpc::Channel> unix_channel(int fd) {
  return grpc::CreateCustomInsecureChannelFromFd("weft", fd, any_size());
}

std::shared_ptr<grpc::Channel> tls_channel(const std::string& address, const config::TlsTexts& texts) {
  grpc::ChannelArguments arguments = any_size();
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto credentials = grpc::SslCredentials({texts.authority, texts.key, texts.certificate});
  return grpc::CreateCustomChannel("dns:///" + address, credentials, arguments);
}

}  // namespace weft::api
