<?php

// What a script does that asks another server: nothing, for ten milliseconds.
usleep(10000);
echo 'waited';
