// Entry of a process that attacks a server: each attacker sends the bodies of its list one after the other, with a
// pause. It is a process of its own, so that what the attackers compute does not delay the clients that measure.
import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

const agent = new Agent({ localAddress: '127.0.0.2' });
/** Answers by attack and status; 408 stands for a connection, too, that was closed without an answer. */
const answers = {};
let going = true;

/** The status of the answer, whose body is not kept. */
function statusOf(port, path, body) {
  const asked = { port, path, agent, method: 'POST' };
  return new Promise((resolve) => {
    const sent = request({ ...asked, headers: { 'content-type': 'application/json' } }, (answer) => {
      answer
        .resume()
        .on('end', () => resolve(answer.statusCode))
        .on('error', () => resolve(408));
    });
    // A large body may meet the end of its connection before its refusal is read.
    sent.on('error', () => resolve(408)).end(body);
  });
}

async function attack({ what, path, bodies }, { port, pauseMs }) {
  for (let time = 0; going; time += 1) {
    const { name, body } = bodies[time % bodies.length];
    const as = `${what}, ${name}: ${await statusOf(port, path, body)}`;
    answers[as] = (answers[as] ?? 0) + 1;
    await delay(pauseMs * (0.5 + Math.random()));
  }
}

let working = Promise.resolve();
process.on('message', async (message) => {
  if (message !== 'stop') {
    working = Promise.all(message.lists.map((list) => attack(list, message)));
    process.send('attacking');
    return;
  }
  going = false;
  await working;
  process.send(answers, () => process.exit(0));
});
process.on('disconnect', () => process.exit(0));
