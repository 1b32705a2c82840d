--[[
  Ends a job that has not ended, whether it waits or runs.

    KEYS[1]  prefix of the queue's keys: see ledger.lua
    ARGV[1]-[3] limits of `finish`
    ARGV[4]  id
    ARGV[5]  status
    ARGV[6]  error, as JSON

  Returns 1 where it ended the job.
]]
return stop(ARGV[4], ARGV[5], ARGV[6], ARGV)
