// relive: link=pie,static threads=yes
// C++ exceptions: nested, rethrown, across threads by exception_ptr, with destructors in
// order; RTTI; static and thread-local destructors.
#include "check.h"
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

static std::string trail;
struct Mark {
    char c;
    explicit Mark(char c) : c(c) {}
    ~Mark() { trail += c; }
};

struct Base {
    virtual ~Base() = default;
    virtual int id() const { return 1; }
};
struct Left : virtual Base {
    int id() const override { return 2; }
};
struct Right : virtual Base {};
struct Both : Left, Right {};

__attribute__((noinline)) static int dive(int depth) {
    Mark mark(static_cast<char>('a' + depth % 26));
    if (depth == 0) throw std::runtime_error("bottom");
    return dive(depth - 1) + 1;
}

static std::string nested() {
    try {
        try {
            dive(5);
        } catch (const std::exception &) {
            std::throw_with_nested(std::logic_error("outer"));
        }
    } catch (const std::logic_error &e) {
        try {
            std::rethrow_if_nested(e);
        } catch (const std::runtime_error &inner) {
            return std::string(e.what()) + "/" + inner.what();
        }
    }
    return "none";
}

static int dropped;
struct Local {
    ~Local() { __atomic_fetch_add(&dropped, 1, __ATOMIC_SEQ_CST); }
    int value = 0;
};
static thread_local Local local;

struct AtEnd {
    ~AtEnd() {
        puts(dropped == 9 ? "ok" : "destructors are missing");
        fflush(stdout);
    }
};
static AtEnd at_end;

int main() {
    for (int i = 0; i < 200; i++) {
        trail.clear();
        CHECK(nested() == "outer/bottom" && trail == "abcdef");
    }
    Both both;
    Base *base = &both;
    CHECK(dynamic_cast<Right *>(base) != nullptr && base->id() == 2 && typeid(*base) == typeid(Both));
    bool bad = false;
    try {
        Base plain;
        (void)dynamic_cast<Left &>(plain);
    } catch (const std::bad_cast &) {
        bad = true;
    }
    CHECK(bad);
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> caught(8);
    for (int t = 0; t < 8; t++)
        threads.emplace_back([t, &caught] {
            local.value = t;
            for (int i = 0; i < 50; i++) {
                try {
                    if (i % 2) throw i;
                    throw std::string("text");
                } catch (int n) {
                    CHECK(n == i);
                } catch (const std::string &s) {
                    CHECK(s == "text");
                }
            }
            try {
                throw std::out_of_range(std::to_string(t));
            } catch (...) {
                caught[static_cast<size_t>(t)] = std::current_exception();
            }
            CHECK(local.value == t);
        });
    for (auto &thread : threads) thread.join();
    for (int t = 0; t < 8; t++) {
        try {
            std::rethrow_exception(caught[static_cast<size_t>(t)]);
        } catch (const std::out_of_range &e) {
            CHECK(e.what() == std::to_string(t));
        }
    }
    auto future = std::async(std::launch::deferred, []() -> int { throw std::bad_alloc(); });
    try {
        future.get();
        CHECK(false);
    } catch (const std::bad_alloc &) {
    }
    std::map<std::string, std::unique_ptr<int>> map;
    for (int i = 0; i < 500; i++) map[std::to_string(i * 7919 % 1000)] = std::make_unique<int>(i);
    CHECK(map.size() == 500 && *map.begin()->second == 0);
    local.value = 1;
    return 0;
}
