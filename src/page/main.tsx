import { render } from 'preact';
import { App } from './app.js';
import { look } from './server.js';
import './style.css';

render(<App />, document.body);
void look();
