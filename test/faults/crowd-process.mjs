// Entry of a process that is a crowd: each member connects, sends, holds the connection or leaves, and with `again`
// connects again whenever the connection has ended. It is a process of its own, so that what it computes does not
// delay the clients that measure.
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

let connections = 0;

function join(member, options) {
  const { port, first, drip, everyMs, leaveMs, addresses, again } = options;
  const socket = connect({ host: '127.0.0.1', port, localAddress: addresses[member % addresses.length] });
  const timers = [];
  if (drip !== undefined) {
    const send = () => socket.writable && !socket.connecting && socket.write(drip);
    timers.push(setInterval(send, everyMs * (0.8 + (member % 40) / 100)));
  }
  socket.on('connect', () => {
    connections += 1;
    socket.write(first);
    if (leaveMs !== undefined) timers.push(setTimeout(() => socket.destroy(), leaveMs));
  });
  socket.on('error', () => undefined).resume();
  socket.on('close', () => {
    for (const timer of timers) clearTimeout(timer);
    if (again) setTimeout(join, 200 + (member % 10) * 20, member, options);
  });
}

process.on('message', async (message) => {
  if (message === 'count') {
    process.send(connections);
    return;
  }
  for (let member = 0; member < message.size; member += 1) {
    join(member, message);
    if (member % 100 === 99) await delay(50);
  }
  await delay(1_500);
  process.send('gathered');
});
process.on('disconnect', () => process.exit(0));
