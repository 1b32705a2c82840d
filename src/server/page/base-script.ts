/** The part of the page's script that the others use: elements, the key, requests and sections. */
export const BASE_SCRIPT = `'use strict';
const byId = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const size = (bytes) => {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < 4) { bytes /= 1024; unit += 1; }
  return (unit === 0 ? bytes : bytes.toFixed(bytes >= 100 ? 0 : 1)) + ' ' + units[unit];
};

// The key is kept for this tab only, and travels in a header, never in an address.
const STORED = 'sida-key';
const storedKey = () => sessionStorage.getItem(STORED) || '';

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}
/** fetch with the key. It throws TypeError when there is no answer. */
function send(path, options) {
  const headers = { ...options.headers };
  if (storedKey()) headers.authorization = 'Bearer ' + storedKey();
  return fetch(path, { ...options, headers, cache: 'no-store' });
}
/** The options of a POST request with that body. */
const posted = (body) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});
/** The body of an answer. Throws Refused for one that is an error. */
async function bodyOf(answer) {
  const body = await answer.json().catch(() => undefined);
  if (body === undefined) throw new Refused(answer.status, 'The answer was not JSON (HTTP ' + answer.status + ')');
  if (!answer.ok && body.error) throw new Refused(answer.status, body.error.message);
  return body;
}
const ask = async (path, options = {}) => bodyOf(await send(path, options));
/** Why a request gave no answer, in words. */
const reasonOf = (error) => error instanceof Refused ? error.message : 'The server cannot be reached.';

/** Sections that this key will not open; they are not asked for again until the key changes. */
const closed = new Map();
function showAccess() {
  const needsKey = [...closed.values()].includes(401);
  byId('access').hidden = !needsKey && !storedKey();
  byId('access-text').textContent = needsKey
    ? storedKey() ? 'The server does not know this key.' : 'This server asks for an API key.'
    : 'A key is in use until this tab is closed.';
  byId('access-form').className = needsKey ? 'needed' : 'given';
  byId('forget').hidden = !storedKey();
  // A link sends no key, so these would be refused.
  byId('links').hidden = needsKey || storedKey() !== '';
}
function useKey(key) {
  if (key) sessionStorage.setItem(STORED, key);
  else sessionStorage.removeItem(STORED);
  byId('key').value = '';
  closed.clear();
  models = [];
  complete = false;
  byId('model').textContent = '';
  choose(undefined);
  newConversation();
  showAccess();
}
byId('access-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const key = byId('key').value.trim();
  // The browser sends no header with other characters.
  if (/^[!-~]*$/.test(key)) useKey(key);
  else byId('access-text').textContent = 'This is no API key: a key has Latin letters, digits and signs, and no spaces.';
});
byId('forget').addEventListener('click', () => useKey(''));

/** Runs \`show\` for one section. When it is refused, the section says why, and the others go on. */
async function section(name, what, parts, show) {
  if (closed.has(name)) return;
  const text = byId(name + '-text');
  try {
    await show();
    for (const part of parts) byId(part).hidden = false;
    if (name !== 'budget') text.hidden = true;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    for (const part of parts) byId(part).hidden = true;
    text.hidden = false;
    text.textContent = error.status === 401 ? 'Needs a key.'
      : error.status === 403 ? 'This key may not ' + what + '.' : error.message;
    if ([401, 403, 422].includes(error.status)) closed.set(name, error.status);
  }
}
`;
