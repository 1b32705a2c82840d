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
  <p><strong id="model"></strong> <span id="ready" class="badge" role="status">connecting</span></p>
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
  <section aria-labelledby="budget-title">
    <h2 id="budget-title">Device budget</h2>
    <div id="budget-bar" class="bar"><div id="budget-used"></div><i id="budget-peak"></i></div>
    <p id="budget-text" class="quiet">unknown</p>
  </section>
  <section aria-labelledby="try-title">
    <h2 id="try-title">Try a classification</h2>
    <p id="try-text" class="quiet" hidden></p>
    <form id="try">
      <label>Task <select id="task"></select></label>
      <div id="fields"></div>
      <button type="submit">Classify</button>
    </form>
    <div id="answer" aria-live="polite"></div>
  </section>
  <section aria-labelledby="experts-title">
    <h2 id="experts-title">Experts <span id="experts-count" class="quiet"></span></h2>
    <p id="experts-text" class="quiet" hidden></p>
    <p id="legend" class="legend"><i class="resident"></i>resident <i class="loading"></i>loading
      <i class="absent"></i>absent <i class="resident pinned"></i>pinned</p>
    <div id="layers"></div>
  </section>
</main>
<footer class="quiet"><a href="/health/ready">readiness</a>
  <span id="links"><a href="/openapi.json">openapi.json</a> <a href="/metrics">metrics</a></span></footer>
</body>
</html>
`;
