--[[
  Ends a job with the outcome of its run.

    KEYS[1]  prefix of the queue's keys; see ledger.lua
    ARGV[1]-[3] the `limits` of `finish` in ledger.lua
    ARGV[4]  id
    ARGV[5]  token
    ARGV[6]  status
    ARGV[7]  field of the record that holds the outcome: result or error
    ARGV[8]  the outcome, as JSON

  Returns 'ended', or the result of `stale` when the run does not count.
]]
local id, token = ARGV[4], ARGV[5]
local why = stale(id, token)
if why then return why end
finish(id, ARGV[6], ARGV[7], ARGV[8], ARGV)
return over(id, token, 'ended')
