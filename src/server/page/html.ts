export const PAGE_HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sida</title>
<link rel="stylesheet" href="/assets/page.css">
<link rel="icon" href="data:,">
<script src="/assets/page.js" defer></script>
</head>
<body>
<header>
  <h1>sida</h1>
  <p><strong id="model"></strong> <select id="models" aria-label="Model" hidden></select> <span id="ready" class="badge" role="status">connecting</span></p>
</header>
<main>
  <section id="access" aria-labelledby="access-title" hidden>
    <h2 id="access-title">API key</h2>
    <p id="access-text" class="quiet"></p>
    <form id="access-form">
      <label>Key <input id="key" type="password" autocomplete="off" spellcheck="false"></label>
      <button type="submit">Use this key</button> <button id="forget" type="button">Forget it</button>
    </form>
  </section>
  <section id="budget-section" aria-labelledby="budget-title">
    <h2 id="budget-title">Device budget</h2>
    <div id="budget-bar" class="bar"><div id="budget-used"></div><i id="budget-peak"></i></div>
    <p id="budget-text" class="quiet">unknown</p>
    <p id="budget-split" class="quiet" hidden></p>
  </section>
  <section id="chat-section" aria-labelledby="chat-title">
    <div class="tools">
      <h2 id="chat-title">Chat</h2>
      <div id="chat-tools" class="tools" hidden>
        <label id="chat-models" hidden><select id="chat-model" aria-label="Model to chat with"></select></label>
        <button id="chat-new" class="plain" type="button">New conversation</button>
      </div>
    </div>
    <p id="chat-text" class="quiet">No model yet.</p>
    <div id="chat" hidden>
      <div id="chat-log" role="log" aria-label="Conversation" tabindex="0"></div>
      <p id="chat-state" class="quiet" role="status"></p>
      <p id="chat-about" class="quiet"></p>
      <form id="chat-form">
        <label>Message <textarea id="chat-input" rows="2" aria-describedby="chat-hint"></textarea></label>
        <div class="tools">
          <span id="chat-hint" class="quiet">Enter sends, Shift+Enter begins a new line.</span>
          <button id="chat-send" type="submit">Send</button>
          <button id="chat-stop" type="button" hidden>Stop</button>
        </div>
      </form>
    </div>
  </section>
  <section id="experts-section" aria-labelledby="experts-title">
    <h2 id="experts-title">Experts <span id="experts-count" class="quiet"></span></h2>
    <p id="experts-text" class="quiet" hidden></p>
    <p id="legend" class="legend"><span><i class="resident"></i>resident</span> <span><i class="loading"></i>loading</span>
      <span><i class="absent"></i>absent</span> <span><i class="resident pinned"></i>pinned</span>
      <span><i class="resident used"></i>just used</span></p>
    <div id="layers"></div>
  </section>
  <section id="try-section" aria-labelledby="try-title">
    <h2 id="try-title">Try a classification</h2>
    <p id="try-text" class="quiet" hidden></p>
    <form id="try">
      <label>Task <select id="task"></select></label>
      <div id="fields"></div>
      <button type="submit">Classify</button>
    </form>
    <div id="answer" aria-live="polite"></div>
  </section>
</main>
<footer class="quiet"><a href="/health/ready">readiness</a> <a href="/docs">interface</a>
  <span id="links"><a href="/openapi.json">openapi.json</a> <a href="/metrics">metrics</a></span></footer>
</body>
</html>
`;
