--[[
  Appends deltas of a streamed completion.

    KEYS[1]  prefix of the queue's keys; see ledger.lua
    ARGV[1]  id
    ARGV[2]  token
    ARGV[3]  most bytes of all deltas of a run
    ARGV[4]  number of the run's deltas before these. A connection that breaks before the reply sends the command again,
             so those that are there already are left out.
    ARGV[5]… deltas, as JSON

  Returns 'ok', 'full' when the run's deltas exceed the bytes, or the result of `stale` when the run does not count.
]]
local id, token, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local why = stale(id, token)
if why then return why end
local list = base .. 'deltas:' .. id
local first = 5 + math.max(0, redis.call('LLEN', list) - tonumber(ARGV[4]))
local bytes = 0
for at = first, #ARGV do bytes = bytes + #ARGV[at] end
if add(id, 'deltaBytes', bytes) > most then return 'full' end
for at = first, #ARGV do redis.call('RPUSH', list, ARGV[at]) end
redis.call('PEXPIRE', list, UNUSED_MS)
redis.call('HSET', jobKey(id), 'streamed', 1)
tell(id, 'deltas')
return 'ok'
