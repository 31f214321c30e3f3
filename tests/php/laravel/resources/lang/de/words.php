<?php
return ['hello' => 'Grüß Gott, :name!'];
