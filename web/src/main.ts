import { mount } from 'svelte';
import App from './App.svelte';
import { events } from './lib/events.svelte';
import { router } from './lib/router.svelte';
import { session } from './lib/session.svelte';
import './styles/tokens.css';
import './styles/base.css';
import './styles/parts.css';

const target = document.getElementById('app');
if (!target) throw new Error('index.html has an element #app');
router.start();
events.start();
session.start();
mount(App, { target });
