#include "upstream/tls_context.h"

#include <boost/asio.hpp>
#include <openssl/err.h>
#include <sys/stat.h>

#include <array>
#include <vector>

namespace keyferry::upstream {

namespace ssl = boost::asio::ssl;

namespace {

// What tells one state of a file from the next.
struct FileMark {
  timespec changed{};
  off_t size = -1;
  ino_t inode = 0;
  bool operator==(const FileMark& other) const {
    return changed.tv_sec == other.changed.tv_sec && changed.tv_nsec == other.changed.tv_nsec && size == other.size &&
           inode == other.inode;
  }
};

FileMark mark_of(const std::string& path) {
  struct stat status {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return {};
  return {status.st_mtim, status.st_size, status.st_ino};
}

struct Kept {
  std::string ca, cert, key;
  std::array<FileMark, 3> marks;
  std::shared_ptr<ssl::context> context;
};

base::Error cannot_load(const char* what, const std::string& path, const boost::system::error_code& error) {
  return {std::string("cannot load the ") + what + " " + path + ": " + error.message(), error.value()};
}

base::Result<std::shared_ptr<ssl::context>> load(const TlsOptions& options) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  boost::system::error_code error;
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  context->set_verify_mode(ssl::verify_peer, error);
  if (options.ca.empty()) {
    context->set_default_verify_paths(error);
    if (error) return cannot_load("authorities of the system", "", error);
  } else {
    context->load_verify_file(options.ca, error);
    if (error) return cannot_load("authorities", options.ca, error);
  }
  if (options.cert.empty() != options.key.empty()) {
    return base::Error{"a client certificate needs both a certificate and a key file"};
  }
  if (!options.cert.empty()) {
    context->use_certificate_chain_file(options.cert, error);
    if (error) return cannot_load("client certificate", options.cert, error);
    context->use_private_key_file(options.key, ssl::context::pem, error);
    if (error) return cannot_load("client key", options.key, error);
  }
  return context;
}

}  // namespace

base::Result<std::shared_ptr<ssl::context>> tls_context(const TlsOptions& options) {
  // As many entries as the configuration has different sets of files.
  thread_local std::vector<Kept> kept;
  const std::array<FileMark, 3> marks{mark_of(options.ca), mark_of(options.cert), mark_of(options.key)};
  Kept* place = nullptr;
  for (Kept& entry : kept) {
    if (entry.ca == options.ca && entry.cert == options.cert && entry.key == options.key) place = &entry;
  }
  if (place != nullptr && place->marks == marks) return place->context;
  auto loaded = load(options);
  ERR_clear_error();
  if (!loaded) return loaded;
  if (place == nullptr) place = &kept.emplace_back(Kept{options.ca, options.cert, options.key, {}, {}});
  place->marks = marks;
  place->context = loaded.value();
  return loaded;
}

}  // namespace keyferry::upstream
