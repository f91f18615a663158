#include "data_type.h"

#include <cstring>

#include "counters.h"
#include "crc32c.h"

namespace keyferry::large_object {
namespace {

constexpr int kEncodingVersion = 1;
ValkeyModuleType* large_object_type = nullptr;

// The keyspace's reference: the pointer that the server keeps as the value.
struct Value {
  explicit Value(LargeObjectRef ref) : object(std::move(ref)) { add(counters.objects); }
  ~Value() { subtract(counters.objects); }
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  LargeObjectRef object;
};

const LargeObject& object_of(const void* value) {
  return *static_cast<const Value*>(value)->object;
}

void free_value(void* value) {
  delete static_cast<Value*>(value);
}

// The struct itself and the payload, which may be shared with a transfer under way.
std::size_t memory_usage(const void* value) {
  return sizeof(Value) + sizeof(LargeObject) + object_of(value).bytes().size();
}

// 0 tells the server to free the value in its background thread always (blob-rdma spec 6.4).
std::size_t free_effort(ValkeyModuleString*, const void*) {
  return 0;
}

void digest(ValkeyModuleDigest* sink, void* value) {
  const auto bytes = object_of(value).bytes();
  ValkeyModule_DigestAddStringBuffer(sink, reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ValkeyModule_DigestEndSequence(sink);
}

// A copy gets memory and an id of its own; null makes the server answer "ERR module key failed to copy".
void* copy_value(ValkeyModuleString*, ValkeyModuleString*, const void* value) {
  const auto& source = object_of(value);
  auto buffer = Buffer::allocate(source.bytes().size(), 0);
  if (!buffer) return nullptr;
  std::memcpy(buffer->bytes().data(), source.bytes().data(), source.bytes().size());
  return new Value(std::make_shared<const LargeObject>(LargeObject{next_object_id(), source.crc, std::move(buffer)}));
}

void save_value(ValkeyModuleIO* io, void* value) {
  const auto& object = object_of(value);
  ValkeyModule_SaveUnsigned(io, object.crc);
  ValkeyModule_SaveStringBuffer(io, reinterpret_cast<const char*>(object.bytes().data()), object.bytes().size());
}

void* load_value(ValkeyModuleIO* io, int encoding_version) {
  if (encoding_version != kEncodingVersion) return nullptr;
  const auto crc = ValkeyModule_LoadUnsigned(io);
  std::size_t size = 0;
  const std::unique_ptr<char, decltype(ValkeyModule_Free)> saved(ValkeyModule_LoadStringBuffer(io, &size),
                                                                 ValkeyModule_Free);
  if (!saved || size == 0) return nullptr;
  auto buffer = Buffer::allocate(size, 0);
  if (!buffer) return nullptr;
  std::memcpy(buffer->bytes().data(), saved.get(), size);
  if (crc32c(buffer->bytes()) != crc) {
    ValkeyModule_LogIOError(io, "warning", "largeobj: a stored object's crc32c does not match its bytes");
    return nullptr;
  }
  return new Value(std::make_shared<const LargeObject>(
      LargeObject{next_object_id(), static_cast<std::uint32_t>(crc), std::move(buffer)}));
}

void rewrite_value(ValkeyModuleIO* io, ValkeyModuleString* key, void* value) {
  const auto bytes = object_of(value).bytes();
  ValkeyModule_EmitAOF(io, "BLOB.TCP_SET", "sb", key, reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

class OpenKey {
 public:
  OpenKey(ValkeyModuleCtx* ctx, ValkeyModuleString* name, int mode) : key_(ValkeyModule_OpenKey(ctx, name, mode)) {}
  ~OpenKey() {
    if (key_ != nullptr) ValkeyModule_CloseKey(key_);
  }
  OpenKey(const OpenKey&) = delete;
  OpenKey& operator=(const OpenKey&) = delete;

  [[nodiscard]] ValkeyModuleKey* get() const { return key_; }

  [[nodiscard]] Lookup content() const {
    // A key opened for reading is null when missing, one opened for writing is an empty one.
    if (key_ == nullptr || ValkeyModule_KeyType(key_) == VALKEYMODULE_KEYTYPE_EMPTY) return {};
    if (ValkeyModule_ModuleTypeGetType(key_) != large_object_type) return {Lookup::Kind::kOtherType, nullptr};
    return {Lookup::Kind::kLargeObject, static_cast<const Value*>(ValkeyModule_ModuleTypeGetValue(key_))->object};
  }

 private:
  ValkeyModuleKey* key_;
};

}  // namespace

bool register_data_type(ValkeyModuleCtx* ctx) {
  ValkeyModuleTypeMethods methods{};
  methods.version = VALKEYMODULE_TYPE_METHOD_VERSION;
  methods.rdb_load = load_value;
  methods.rdb_save = save_value;
  methods.aof_rewrite = rewrite_value;
  methods.mem_usage = memory_usage;
  methods.digest = digest;
  methods.free = free_value;
  methods.free_effort = free_effort;
  methods.copy = copy_value;
  large_object_type = ValkeyModule_CreateDataType(ctx, "largeob-k", kEncodingVersion, &methods);
  return large_object_type != nullptr;
}

Lookup look_up(ValkeyModuleCtx* ctx, ValkeyModuleString* key) {
  return OpenKey(ctx, key, VALKEYMODULE_READ).content();
}

Commit commit(ValkeyModuleCtx* ctx, ValkeyModuleString* key, LargeObjectRef object) {
  const OpenKey open(ctx, key, VALKEYMODULE_READ | VALKEYMODULE_WRITE);
  const auto present = open.content();
  if (present.kind == Lookup::Kind::kOtherType) return Commit::kOtherType;
  if (present.kind == Lookup::Kind::kLargeObject && present.object->id > object->id) return Commit::kStale;
  auto value = std::make_unique<Value>(std::move(object));
  if (ValkeyModule_ModuleTypeSetValue(open.get(), large_object_type, value.get()) != VALKEYMODULE_OK) {
    return Commit::kFailed;
  }
  value.release();
  return Commit::kStored;
}

}  // namespace keyferry::large_object
