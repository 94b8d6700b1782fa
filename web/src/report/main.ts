import { mount } from 'svelte';
import '../styles/tokens.css';
import '../styles/base.css';
import '../styles/parts.css';
import Page from './Page.svelte';
import { read } from './data';

const target = document.getElementById('app');
if (!target) throw new Error('report.html has an element #app');
mount(Page, { target, props: { report: read() } });
