// SPDX-License-Identifier: Apache-2.0
//
// heapline.hpp - scope guards for heapline.h; header only, C++11.
//
// A session, frame or region lasts as long as its object.  Nothing throws: a
// program runs on when recording fails; error() tells the code.
#ifndef HEAPLINE_HPP
#define HEAPLINE_HPP

#include "heapline.h"

#include <cstddef>
#include <exception>
#include <initializer_list>
#include <string>
#include <vector>

namespace heapline
{

// Handle of a region; registered once, valid in its session.
class region
{
  public:
    region() = default;
    heapline_region handle() const
    {
        return handle_;
    }

  private:
    friend class session;
    explicit region(heapline_region handle) : handle_(handle)
    {
    }
    heapline_region handle_ = 0xffffffffu; // until registered: refused
};

class session
{
  public:
    session() : session(std::vector<const char *>{})
    {
    }
    session(std::initializer_list<const char *> metrics)
        : session(std::vector<const char *>(metrics))
    {
    }
    explicit session(const std::vector<const char *> &metrics)
        : error_(heapline_session_begin(&s_, metrics.data(), metrics.size()))
    {
    }
    ~session()
    {
        end();
    }
    session(const session &) = delete;
    session &operator=(const session &) = delete;

    // Ends the session early; waits as heapline_session_end does.
    int end()
    {
        heapline_session *s = s_;
        s_ = nullptr;
        return s ? heapline_session_end(s) : 0;
    }

    int error() const
    {
        return error_;
    }
    heapline_session *get() const
    {
        return s_;
    }

    int set_app_version(const std::string &version)
    {
        return heapline_set_app_version(s_, version.c_str());
    }
    // A path that is refused gives a region that is refused; *error says why.
    region add_region(const std::string &path, int *error = nullptr)
    {
        heapline_region handle = region().handle();
        int e = heapline_region_register(s_, path.c_str(), &handle);
        if (error)
            *error = e;
        return e ? region() : region(handle);
    }

  private:
    heapline_session *s_ = nullptr;
    int error_;
};

// One frame: committed at the end of its scope, discarded when the scope is
// left by an exception.
class frame
{
  public:
    explicit frame(session &s)
        : s_(s.get()), error_(heapline_frame_begin(s_)), open_(error_ == HEAPLINE_OK),
          exceptions_(exceptions())
    {
    }
    ~frame()
    {
        if (exceptions() > exceptions_)
            discard();
        else
            commit();
    }
    frame(const frame &) = delete;
    frame &operator=(const frame &) = delete;

    int set(std::size_t index, double value)
    {
        return heapline_set_metric(s_, index, value);
    }
    int set(const std::string &name, double value)
    {
        return heapline_set_metric_by_name(s_, name.c_str(), value);
    }
    int commit()
    {
        return close(heapline_frame_end);
    }
    int discard()
    {
        return close(heapline_frame_discard);
    }
    int error() const
    {
        return error_;
    }

  private:
    static int exceptions()
    {
#if __cplusplus >= 201703L
        return std::uncaught_exceptions();
#else
        return std::uncaught_exception() ? 1 : 0;
#endif
    }
    int close(int (*how)(heapline_session *))
    {
        if (!open_)
            return error_;
        open_ = false;
        return how(s_);
    }
    heapline_session *s_;
    int error_;
    bool open_;
    int exceptions_;
};

// One stay in a region, by handle or by name relative to the region around it.
class scope
{
  public:
    scope(session &s, region r)
        : s_(s.get()), error_(heapline_region_begin(s_, r.handle())), handle_(r.handle()),
          by_name_(false)
    {
    }
    scope(session &s, const char *name)
        : s_(s.get()), error_(heapline_region_push(s_, name)), handle_(0), by_name_(true)
    {
    }
    ~scope()
    {
        if (error_ == HEAPLINE_OK)
            by_name_ ? heapline_region_pop(s_) : heapline_region_end(s_, handle_);
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
    int error() const
    {
        return error_;
    }

  private:
    heapline_session *s_;
    int error_;
    heapline_region handle_;
    bool by_name_;
};

} // namespace heapline

#endif
