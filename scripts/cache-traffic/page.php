<?php

require_once __DIR__ . '/origin.php';
answer();
