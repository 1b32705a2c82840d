--[[
  Ends a waiting or running job.

    KEYS[1]  prefix of the queue's keys; see ledger.lua
    ARGV[1]-[3] the `limits` of `finish` in ledger.lua
    ARGV[4]  id
    ARGV[5]  status
    ARGV[6]  error, as JSON

  Returns 1, or 0 when the job had ended before or is gone.
]]
return stop(ARGV[4], ARGV[5], ARGV[6], ARGV)
