#include "tests/support/test_certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <vector>

namespace keyferry::test {

namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Cert = std::unique_ptr<X509, decltype(&X509_free)>;

void must(bool good, const char* what) {
  if (!good) throw std::runtime_error(std::string("test certificates: ") + what + " failed");
}

void extend(X509* cert, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, cert, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  must(extension != nullptr && X509_add_ext(cert, extension, -1) == 1, "an extension");
  X509_EXTENSION_free(extension);
}

Key make_key() {
  Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  must(key != nullptr, "making a key");
  return key;
}

// Signed by `issuer`, or by itself if there is none.
Cert make_cert(const std::string& subject, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key, const std::string& names,
               long serial) {
  constexpr long kDay = 24 * 3600;
  Cert cert(X509_new(), X509_free);
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -kDay);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), 30 * kDay);
  X509_set_pubkey(cert.get(), key);
  const auto* text = reinterpret_cast<const unsigned char*>(subject.c_str());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert.get()), "CN", MBSTRING_ASC, text, -1, -1, 0);
  X509_set_issuer_name(cert.get(), X509_get_subject_name(issuer != nullptr ? issuer : cert.get()));
  if (issuer == nullptr) extend(cert.get(), NID_basic_constraints, "critical,CA:TRUE");
  if (!names.empty()) extend(cert.get(), NID_subject_alt_name, names);
  must(X509_sign(cert.get(), issuer_key != nullptr ? issuer_key : key, EVP_sha256()) > 0, "signing");
  return cert;
}

template <typename Write>
void write_file(const std::string& path, const Write& write) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  must(file != nullptr, "opening a file");
  const bool good = write(file) == 1;
  std::fclose(file);
  must(good, "writing a file");
}

}  // namespace

TestCertificates::TestCertificates(const std::string& names) {
  std::string pattern = (std::filesystem::temp_directory_path() / "keyferry-certificates-XXXXXX").string();
  must(::mkdtemp(pattern.data()) != nullptr, "making a folder");
  folder_ = pattern;
  const Key ca_key = make_key();
  const Cert ca_cert = make_cert("Keyferry test authority", ca_key.get(), nullptr, nullptr, "", 1);
  const Key other_key = make_key();
  const Cert other_cert = make_cert("Another test authority", other_key.get(), nullptr, nullptr, "", 1);
  const Key server_key = make_key();
  const Cert server_cert = make_cert("server", server_key.get(), ca_cert.get(), ca_key.get(), names, 2);
  write_file(ca(), [&](std::FILE* file) { return PEM_write_X509(file, ca_cert.get()); });
  write_file(other_ca(), [&](std::FILE* file) { return PEM_write_X509(file, other_cert.get()); });
  write_file(cert(), [&](std::FILE* file) { return PEM_write_X509(file, server_cert.get()); });
  write_file(key(), [&](std::FILE* file) {
    return PEM_write_PrivateKey(file, server_key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

TestCertificates::~TestCertificates() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace keyferry::test
