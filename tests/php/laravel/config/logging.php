<?php
return ['default' => 'server', 'channels' => ['server' => ['driver' => 'errorlog', 'level' => 'debug']]];
